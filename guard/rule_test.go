package guard

import (
	"encoding/base64"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// scanAll returns what a default guard finds.
func scanAll(t testing.TB, text string) Report {
	t.Helper()
	g, err := New(Options{NoCache: true})
	if err != nil {
		t.Fatal(err)
	}
	r, err := g.Scan(t.Context(), Result{Content: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// broken returns the rules that a text breaks, in the open or when it is decoded.
func broken(t testing.TB, text string) []string {
	t.Helper()
	var list []string
	for _, d := range scanAll(t, text).Detections {
		list = append(list, d.Rule)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// examples returns a text that breaks a rule, and one that nearly does.
func examples(r *rule) (hit, miss string) {
	if r.family != SecretExposure {
		return r.hit, r.miss
	}
	if r.name == privateKeyName {
		body := strings.Repeat("MIIBVAIBADANBgkqhkiG9w0BAQEFAASCAT4wggE6AgEAAkEAq7BFUpkGp3+LQmlQ\n", 3)
		return "-----BEGIN PRIVATE KEY-----\n" + body + "-----END PRIVATE KEY-----\n", "-----BEGIN PUBLIC KEY-----\n" + body + "-----END PUBLIC KEY-----\n"
	}
	i := slices.IndexFunc(secretTable, func(s secret) bool { return s.name == r.name })
	token := forge(&secretTable[i], rand.New(rand.NewPCG(1, uint64(i))))
	miss = token[:len(token)-1]
	if secretTable[i].name == "jwt" {
		miss = strings.Replace(token, ".", ",", 1)
	} else if c := regexp.MustCompile(`\d+-\d+$`).FindString(secretTable[i].shape); c != "" {
		miss = token[:len(token)/3] // it may be shorter, but not so much
	}
	return "x = " + token + "\n", "x = " + miss + "\n"
}

// forge makes a token of the first shape of a secret.
func forge(s *secret, rnd *rand.Rand) string {
	text, _, _ := strings.Cut(s.shape, " | ")
	var b strings.Builder
	for f := range strings.FieldsSeq(text) {
		switch f[0] {
		case '~':
			b.WriteString(`": "`)
		case '\'':
			b.WriteString(strings.Trim(f, "'"))
		default:
			p := parseShape(f + " 'xx'").parts[0]
			for range p.min {
				b.WriteByte(alphabets()[f[0]][rnd.IntN(len(alphabets()[f[0]]))])
			}
		}
	}
	token := b.String()
	switch s.name {
	case "github-token":
		body := token[len(token)-36:][:30]
		token = token[:len(token)-6] + base62Number(crc(body))
	case "age-secret-key":
		token = token[:len(token)-6] + bech32Sum(token[:len(token)-6])
	case "jwt":
		b64 := base64.RawURLEncoding.EncodeToString
		token = b64([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + b64([]byte(`{"sub":"1234567890"}`)) + "." + b64([]byte(token[:32]))
	}
	return token
}

// TestExamples: each rule has an example, and a text that is nearly one.
func TestExamples(t *testing.T) {
	t.Parallel()
	for _, r := range compiled().rules {
		hit, miss := examples(r)
		if hit == "" || miss == "" {
			t.Errorf("%s: has no examples", r.name)
			continue
		}
		if got := broken(t, hit); !slices.Contains(got, r.name) {
			t.Errorf("%s: not found in %q, but %q", r.name, hit, got)
		}
		if got := broken(t, miss); slices.Contains(got, r.name) {
			t.Errorf("%s: found in %q", r.name, miss)
		}
	}
}

// TestMissesAreClean: what is nearly an example of one rule breaks no other.
func TestMissesAreClean(t *testing.T) {
	t.Parallel()
	for _, r := range compiled().rules {
		if _, miss := examples(r); len(broken(t, miss)) > 0 {
			t.Errorf("%s: %q breaks %q", r.name, miss, broken(t, miss))
		}
	}
}

// TestRulesAreSound: T1, the map of detectors, rules and families.
func TestRulesAreSound(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	kebab := regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	for _, r := range compiled().rules {
		if names[r.name] || !kebab.MatchString(r.name) {
			t.Errorf("%s: not a name, or not the only one", r.name)
		}
		names[r.name] = true
		if !slices.ContainsFunc(mitigations, func(m struct {
			family Family
			advice string
		}) bool {
			return m.family == r.family
		}) {
			t.Errorf("%s: no family %q", r.name, r.family)
		}
		if r.confidence <= 0 || r.confidence > 1 || !slices.Contains([]Severity{Low, Medium, High, Critical}, r.severity) || r.says == "" {
			t.Errorf("%s: confidence %v, severity %q, %q", r.name, r.confidence, r.severity, r.says)
		}
		ways := 0
		for _, has := range []bool{r.phrases != nil, r.line != nil, r.literal != nil} {
			if has {
				ways++
			}
		}
		if own := r.detector == "encoded" || r.detector == "secrets"; own && ways != 0 || !own && ways != 1 || r.literal != nil && r.match == nil {
			t.Errorf("%s: %d ways to match", r.name, ways)
		}
		for _, l := range r.literal {
			if l != string(lowerASCII([]byte(l))) || l == "" {
				t.Errorf("%s: literal %q", r.name, l)
			}
		}
	}
	for rule, family := range map[string]Family{
		"role-assignment": RoleHijack, "instruction-override": ImperativeInjection,
		"send-to": ExfiltrationCommand, "tool-call-request": ToolMisuse,
	} {
		if got := compiled().byName[rule].family; got != family {
			t.Errorf("%s is of %s, want %s", rule, got, family)
		}
	}
}
