package guard

import (
	"bytes"
	"encoding/base64"
	"hash/crc32"
	"strconv"
	"strings"
	"sync"
)

// A secret is a kind of token whose issuer documents how it looks. A shape is written as
// parts with blanks between, and alternatives behind a bar:
//
//	'ghp_' w36
//
// Text in quotes is itself. A letter is an alphabet, and a number, or two with a dash,
// how many characters of it: as many as there are. What is behind the last of them must
// not be of its alphabet, and what is before the token not of a word, unless a checksum
// proves the token. ~ is what separates a name from its value; only the value is secret.
type secret struct {
	name  string
	what  string
	shape string
	check func(token []byte) bool // nil: there is no checksum, or it is not documented
}

// alphabets by their letters in shapes.
var alphabets = sync.OnceValue(func() map[byte]string {
	return map[byte]string{
		'd': "0123456789",
		'h': "0123456789abcdef",
		'H': "0123456789abcdefABCDEF",
		'l': "0123456789abcdefghijklmnopqrstuvwxyz",
		'u': "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ",
		'q': "234567ABCDEFGHIJKLMNOPQRSTUVWXYZ",
		's': "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
		'a': "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
		'w': base62,
		'b': base62 + "_-",
		'B': base62 + "+/",
		't': base62 + "_~.-",
	}
})

const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

var secretTable = []secret{
	// Forges.
	{"github-token", "GitHub token", "'ghp_' w36 | 'gho_' w36 | 'ghu_' w36 | 'ghs_' w36 | 'ghr_' w36", checkGitHub},
	{"github-fine-grained", "GitHub fine-grained token", "'github_pat_' w22 '_' w59", nil},
	{"gitlab-token", "GitLab token", "'glpat-' b20 | 'gldt-' b20 | 'glrt-' b20 | 'glft-' b20 | 'glsoat-' b20 | 'glimt-' b25 | 'glptt-' h40 | 'gloas-' h64 | 'glagent-' b50 | 'glcbt-' b20-25 | 'glffct-' b20", nil},
	{"gitlab-routable", "GitLab routable token", "'glpat-' b27-300 '.' h2 '.' l9 | 'glrt-t' d1 '_' b27-300 '.' h2 '.' l9 | 'glpat-' b27-300 '.' l2 l7", nil},
	{"bitbucket-password", "Bitbucket app password", "'ATBB' w32", nil},
	{"atlassian-token", "Atlassian API token", "'ATATT3xFfGF0' b150-200 '=' u8 | 'ATCTT3xFfGN0' b150-200 '=' u8", nil},

	// Registries of packages.
	{"npm-token", "npm token", "'npm_' w36", nil},
	{"pypi-token", "PyPI token", "'pypi-AgEIcHlwaS5vcmc' b50-1000 | 'pypi-AgENdGVzdC5weXBpLm9yZw' b50-1000", nil},
	{"rubygems-token", "RubyGems key", "'rubygems_' h48", nil},
	{"crates-token", "crates.io token", "'cio' w32", nil},
	{"nuget-key", "NuGet key", "'oy2' l43", nil},
	{"docker-token", "Docker Hub token", "'dckr_pat_' b27 | 'dckr_oat_' b32", nil},
	{"clojars-token", "Clojars token", "'CLOJARS_' l60", nil},
	{"artifactory-key", "Artifactory key", "'AKCp' w69 | 'cmVmdGtuO' w50-60", nil},

	// Clouds.
	{"aws-key-id", "AWS access key id", "'AKIA' q16 | 'ASIA' q16 | 'ABIA' q16 | 'ACCA' q16", checkAWS},
	{"aws-secret-key", "AWS secret access key", "'ecret_access_key' ~ B40 | 'ecretAccessKey' ~ B40 | 'ECRET_ACCESS_KEY' ~ B40", checkAWS},
	{"google-api-key", "Google API key", "'AIza' b35", nil},
	{"google-oauth", "Google OAuth secret", "'GOCSPX-' b28 | 'ya29.' b60-1024", nil},
	{"azure-client-secret", "Azure client secret", "t3 d1 'Q~' t31-34", nil},
	{"azure-storage-key", "Azure storage key", "'AccountKey=' ~ B86 '=='", nil},
	{"azure-devops-token", "Azure DevOps token", "w76 'AZDO' w4", nil},
	{"digitalocean-token", "DigitalOcean token", "'dop_v1_' h64 | 'doo_v1_' h64 | 'dor_v1_' h64", nil},
	{"heroku-key", "Heroku key", "'HRKU-AA' b58", nil},
	{"cloudflare-origin-key", "Cloudflare origin CA key", "'v1.0-' h24 '-' h146", nil},
	{"vault-token", "Vault token", "'hvs.' b90-300 | 'hvb.' b138-300 | 'hvr.' b90-300", nil},
	{"terraform-token", "Terraform token", "w14 '.atlasv1.' b60-70", nil},
	{"databricks-token", "Databricks token", "'dapi' h32", nil},
	{"pulumi-token", "Pulumi token", "'pul-' h40", nil},
	{"doppler-token", "Doppler token", "'dp.pt.' l43 | 'dp.st.' l43 | 'dp.ct.' l43 | 'dp.sa.' l43", nil},
	{"flyio-token", "Fly.io token", "'fo1_' b43 | 'fm2_' B100-1000", nil},
	{"grafana-token", "Grafana token", "'glsa_' w32 '_' H8 | 'glc_' B32-400", nil},
	{"sentry-token", "Sentry token", "'sntryu_' h64", nil},
	{"newrelic-key", "New Relic key", "'NRAK-' u27", nil},
	{"dynatrace-token", "Dynatrace token", "'dt0c01.' q24 '.' q64", nil},
	{"age-secret-key", "age secret key", "'AGE-SECRET-KEY-1' s58", checkAge},

	// Models.
	{"openai-key", "OpenAI key", "'sk-' w20 'T3BlbkFJ' w20 | 'sk-proj-' b74 'T3BlbkFJ' b74 | 'sk-proj-' b58 'T3BlbkFJ' b58 | 'sk-svcacct-' b74 'T3BlbkFJ' b74 | 'sk-svcacct-' b58 'T3BlbkFJ' b58 | 'sk-admin-' b58 'T3BlbkFJ' b58 | 'sk-admin-' b74 'T3BlbkFJ' b74", nil},
	{"anthropic-key", "Anthropic key", "'sk-ant-api03-' b95 | 'sk-ant-admin01-' b95 | 'sk-ant-oat01-' b95", nil},
	{"huggingface-token", "Hugging Face token", "'hf_' a34", nil},
	{"replicate-token", "Replicate token", "'r8_' w37", nil},
	{"groq-key", "Groq key", "'gsk_' w52", nil},
	{"xai-key", "xAI key", "'xai-' w80", nil},
	{"perplexity-key", "Perplexity key", "'pplx-' w48", nil},

	// Chat and mail.
	{"slack-token", "Slack token", "'xoxb-' d10-13 '-' d10-13 '-' w24 | 'xoxp-' d10-13 '-' d10-13 '-' d10-13 '-' h28-34 | 'xapp-1-' u8-14 '-' d10-14 '-' h64 | 'xoxe-1-' w140-200", nil},
	{"slack-webhook", "Slack webhook", "'hooks.slack.com/services/T' u8-12 '/B' u8-12 '/' w24", nil},
	{"discord-webhook", "Discord webhook", "'discord.com/api/webhooks/' d17-20 '/' b60-80", nil},
	{"telegram-token", "Telegram bot token", "d10 ':AA' b33 | d9 ':AA' b33", nil},
	{"sendgrid-key", "SendGrid key", "'SG.' b22 '.' b43", nil},
	{"mailgun-key", "Mailgun key", "'key-' h32", nil},
	{"twilio-key", "Twilio key", "'SK' h32", nil},

	// Payment and shops.
	{"stripe-key", "Stripe key", "'sk_live_' w24-128 | 'rk_live_' w24-128 | 'sk_test_' w24-128 | 'rk_test_' w24-128 | 'whsec_' B32-64", nil},
	{"square-token", "Square token", "'sq0atp-' b22 | 'sq0csp-' b43", nil},
	{"shopify-token", "Shopify token", "'shpat_' H32 | 'shpca_' H32 | 'shppa_' H32 | 'shpss_' H32", nil},

	// Others.
	{"postman-key", "Postman key", "'PMAK-' h24 '-' h34", nil},
	{"linear-key", "Linear key", "'lin_api_' w40", nil},
	{"notion-token", "Notion token", "'ntn_' d11 w35", nil},
	{"airtable-token", "Airtable token", "'pat' w14 '.' h64", nil},
	{"jwt", "JSON web token", "'eyJ' b10-1024 '.eyJ' b10-6144 '.' b20-1024", checkJWT},
}

const privateKeyName = "private-key"

// text is the secret as the digest of the rules has it.
func (s *secret) text() string {
	return s.name + " " + s.shape + " " + strconv.FormatBool(s.check != nil)
}

// secretRules makes of each secret a rule, and one for private keys.
var secretRules = sync.OnceValue(func() []rule {
	list := make([]rule, 0, len(secretTable)+1)
	add := func(name, says string, severity Severity, confidence float64) {
		list = append(list, rule{name: name, family: SecretExposure, severity: severity, confidence: confidence, says: says})
	}
	for i := range secretTable {
		s := &secretTable[i]
		confidence := 0.9
		if s.check != nil {
			confidence = 0.95
		}
		severity := High
		if s.name == "jwt" {
			severity = Medium // many are public: they are receipts
		}
		add(s.name, s.what, severity, confidence)
	}
	add(privateKeyName, "a line of a private key", Critical, 0.99)
	return list
})

// checkGitHub: the last six digits are the CRC-32 of the 30 before them, in base 62.
func checkGitHub(token []byte) bool {
	body := token[len(token)-36:]
	return base62Number(crc32.ChecksumIEEE(body[:30])) == string(body[30:])
}

func base62Number(n uint32) string {
	var b [6]byte
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = base62[n%62]
		n /= 62
	}
	return string(b[:])
}

// checkAWS refuses what AWS itself uses for examples.
func checkAWS(token []byte) bool {
	return !bytes.HasSuffix(token, []byte("EXAMPLE")) && !bytes.HasSuffix(token, []byte("EXAMPLEKEY"))
}

// checkAge checks the checksum of Bech32.
func checkAge(token []byte) bool { return bech32(token) == 1 }

func bech32(token []byte) uint32 {
	hrp, data, _ := strings.Cut(strings.ToLower(string(token)), "-1")
	hrp += "-"
	c := uint32(1)
	step := func(v byte) {
		top := c >> 25
		c = c&0x1ffffff<<5 ^ uint32(v)
		for i, g := range [...]uint32{0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3} {
			if top>>i&1 == 1 {
				c ^= g
			}
		}
	}
	for i := range len(hrp) {
		step(hrp[i] >> 5)
	}
	step(0)
	for i := range len(hrp) {
		step(hrp[i] & 31)
	}
	for i := range len(data) {
		step(byte(strings.IndexByte(strings.ToLower(alphabets()['s']), data[i])))
	}
	return c
}

// checkJWT asks that the header is an object with an algorithm.
func checkJWT(token []byte) bool {
	header, _, _ := bytes.Cut(token, []byte("."))
	text, err := base64.RawURLEncoding.AppendDecode(nil, header)
	return err == nil && bytes.HasPrefix(text, []byte(`{"`)) && bytes.HasSuffix(text, []byte("}")) && bytes.Contains(text, []byte(`"alg"`))
}
