package prepush

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

var (
	idA  = strings.Repeat("a", 40)
	idB  = strings.Repeat("b", 40)
	zero = strings.Repeat("0", 40)
)

func TestParse(t *testing.T) {
	t.Parallel()
	long, longZero := strings.Repeat("c", 64), strings.Repeat("0", 64)
	for _, test := range []struct {
		name, text string
		want       []Update
	}{
		{"up to date", "", nil},
		{"new branch", "refs/heads/main " + idA + " refs/heads/main " + zero + "\n", []Update{{"refs/heads/main", idA, "refs/heads/main", zero}}},
		{"detached", "HEAD " + idA + " refs/heads/x " + idB + "\n", []Update{{"HEAD", idA, "refs/heads/x", idB}}},
		{"expression with spaces", "HEAD^{/two words} " + idA + " refs/heads/x " + idB + "\n", []Update{{"HEAD^{/two words}", idA, "refs/heads/x", idB}}},
		{"SHA-256", "HEAD " + long + " refs/heads/x " + longZero + "\n", []Update{{"HEAD", long, "refs/heads/x", longZero}}},
		{"deletion first", "(delete) " + zero + " refs/heads/old " + idB + "\nHEAD " + idA + " refs/heads/x " + zero + "\n",
			[]Update{{"(delete)", zero, "refs/heads/old", idB}, {"HEAD", idA, "refs/heads/x", zero}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := Parse([]byte(test.text))
			if err != nil || !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"no end":              "HEAD " + idA + " refs/heads/x " + zero,
		"three fields":        idA + " refs/heads/x " + zero + "\n",
		"short id":            "HEAD " + idA[1:] + " refs/heads/x " + zero + "\n",
		"upper case":          "HEAD " + strings.ToUpper(idA) + " refs/heads/x " + zero + "\n",
		"two formats":         "HEAD " + idA + " refs/heads/x " + strings.Repeat("0", 64) + "\n",
		"two formats, apart":  "HEAD " + idA + " refs/heads/x " + zero + "\nHEAD " + strings.Repeat("c", 64) + " refs/heads/x " + strings.Repeat("0", 64) + "\n",
		"no reference":        "HEAD " + idA + " heads/x " + zero + "\n",
		"control character":   "HEAD\x1b[2J " + idA + " refs/heads/x " + zero + "\n",
		"return":              "HEAD " + idA + " refs/heads/x " + zero + "\r\n",
		"empty line":          "\n",
		"delete of something": "(delete) " + idA + " refs/heads/x " + idB + "\n",
		"zero of a branch":    "refs/heads/x " + zero + " refs/heads/x " + idB + "\n",
		"nothing at all":      "(delete) " + zero + " refs/heads/x " + zero + "\n",
		"too much":            strings.Repeat("x", MaxInput+1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := Parse([]byte(text)); err == nil || got != nil {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add("")
	f.Add("refs/heads/main " + idA + " refs/heads/main " + zero + "\n")
	f.Add("(delete) " + zero + " refs/heads/old " + idB + "\nHEAD^{/two words} " + idA + " refs/heads/x " + zero + "\n")
	f.Fuzz(func(t *testing.T, text string) {
		updates, err := Parse([]byte(text))
		if err != nil {
			if updates != nil {
				t.Error("an error, and updates")
			}
			return
		}
		var again strings.Builder
		for _, u := range updates {
			again.WriteString(u.String() + "\n")
		}
		if again.String() != text {
			t.Errorf("%q is written as %q", text, again.String())
		}
	})
}

// pre-commit#3050: the framework has no standard input for its hooks, and variables in
// its place.
func TestFromPreCommit(t *testing.T) {
	t.Parallel()
	all := map[string]string{
		"PRE_COMMIT_REMOTE_NAME": "origin", "PRE_COMMIT_REMOTE_BRANCH": "refs/heads/main", "PRE_COMMIT_LOCAL_BRANCH": "refs/heads/main",
		"PRE_COMMIT_TO_REF": idA, "PRE_COMMIT_FROM_REF": idB,
	}
	for _, test := range []struct {
		name    string
		without []string
		want    Update
		fails   bool
	}{
		{"update", nil, Update{"refs/heads/main", idA, "refs/heads/main", idB}, false},
		{"all is new", []string{"PRE_COMMIT_TO_REF", "PRE_COMMIT_FROM_REF"}, Update{"refs/heads/main", strings.Repeat("c", 40), "refs/heads/main", zero}, false},
		{"another stage", []string{"PRE_COMMIT_REMOTE_NAME"}, Update{}, true},
		{"no branch", []string{"PRE_COMMIT_LOCAL_BRANCH"}, Update{}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			env := map[string]string{}
			for k, v := range all {
				env[k] = v
			}
			for _, k := range test.without {
				delete(env, k)
			}
			resolve := func(rev string) (string, error) {
				if rev != "refs/heads/main" {
					return "", errors.New("unknown")
				}
				return strings.Repeat("c", 40), nil
			}
			remote, got, err := FromPreCommit(func(k string) string { return env[k] }, resolve)
			if (err != nil) != test.fails {
				t.Fatal(err)
			}
			if !test.fails && (remote != "origin" || len(got) != 1 || got[0] != test.want) {
				t.Errorf("got %q, %+v", remote, got)
			}
		})
	}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name       string
		mode       Mode
		standings  []Standing
		run, block []int
		pass       bool
	}{
		{"nothing new", Require, nil, nil, nil, true},
		{"proved", Require, []Standing{Proved, ByTree, Unchanged}, nil, nil, true},
		{"one is missing", Require, []Standing{Proved, Missing}, nil, []int{1}, false},
		{"zero standing", Require, make([]Standing, 1), nil, []int{0}, false},
		{"to be run", Run, []Standing{Missing, Proved, Missing}, []int{0, 2}, nil, true},
		{"bad is not run again", Run, []Standing{Missing, Bad}, nil, []int{1}, false},
		{"no commit cannot be run", Run, []Standing{Untested}, nil, []int{0}, false},
		{"warned", Warn, []Standing{Missing, Bad, Untested, Proved}, nil, []int{0, 1, 2}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			run, block, pass := Decide(test.mode, test.standings)
			if !reflect.DeepEqual(run, test.run) || !reflect.DeepEqual(block, test.block) || pass != test.pass {
				t.Errorf("got %v, %v, %t", run, block, pass)
			}
		})
	}
}

func TestScript(t *testing.T) {
	t.Parallel()
	for _, s := range []Script{
		{Require, false, "/usr/bin/truegreen"}, {Warn, true, "/opt/it's here/$(x)/truegreen"}, {Run, true, "C:\\bin\\truegreen.exe"},
	} {
		if got, ok := ReadScript(s.Text()); !ok || got != s {
			t.Errorf("%+v is read as %+v, %t", s, got, ok)
		}
		if got, ok := ReadScript(s.Text() + "echo more\n"); !ok || got != (Script{}) {
			t.Errorf("an edited one is read as %+v, %t", got, ok)
		}
	}
	for _, text := range []string{"", "#!/bin/sh\n", "#!/bin/sh\ngit lfs pre-push \"$@\"\n"} {
		if _, ok := ReadScript(text); ok {
			t.Errorf("%q is taken for ours", text)
		}
	}
}

func FuzzReadScript(f *testing.F) {
	f.Add(Script{Warn, true, "/bin/it's"}.Text())
	f.Fuzz(func(t *testing.T, text string) {
		if s, ok := ReadScript(text); ok && s != (Script{}) && s.Text() != text {
			t.Errorf("%q is written as %q", text, s.Text())
		}
	})
}
