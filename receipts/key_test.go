package receipts

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/gob"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
)

// hkdfSum is RFC 5869 for one block of output, written with HMAC alone.
func hkdfSum(secret, salt, info []byte) []byte {
	extract := hmac.New(sha256.New, salt)
	extract.Write(secret)
	expand := hmac.New(sha256.New, extract.Sum(nil))
	expand.Write(info)
	expand.Write([]byte{1})
	return expand.Sum(nil)
}

func TestDeriveKey(t *testing.T) {
	t.Parallel()
	salt, task, job := Sum([]byte("salt")), ID{1, 15: 2}, ID{3, 15: 4}
	message := []byte("message")
	macs := map[Digest]string{}
	for _, purpose := range []string{PurposeReceipt, PurposeSeal} {
		key, err := DeriveKey(testSecret, salt, purpose, task, job)
		if err != nil {
			t.Fatal(err)
		}
		info := "truegreen/v1 " + purpose + "\x00" + string(task[:]) + string(job[:])
		if got := KeyInfo(purpose, task, job); string(got) != info {
			t.Errorf("info %q; want %q", got, info)
		}
		mac := hmac.New(sha256.New, hkdfSum(testSecret, salt[:], []byte(info)))
		mac.Write(message)
		got, err := key.MAC(message)
		if err != nil || !bytes.Equal(got[:], mac.Sum(nil)) {
			t.Errorf("%s: MAC %s, %v", purpose, got, err)
		}
		macs[got] = purpose
	}
	// Everything that goes into a key makes another key.
	for name, derive := range map[string]func() (Key, error){
		"secret": func() (Key, error) { return DeriveKey(make([]byte, 32), salt, PurposeReceipt, task, job) },
		"salt":   func() (Key, error) { return DeriveKey(testSecret, Digest{}, PurposeReceipt, task, job) },
		"task":   func() (Key, error) { return DeriveKey(testSecret, salt, PurposeReceipt, job, job) },
		"job":    func() (Key, error) { return DeriveKey(testSecret, salt, PurposeReceipt, task, task) },
	} {
		key, err := derive()
		if err != nil {
			t.Fatal(err)
		}
		mac, err := key.MAC(message)
		if err != nil {
			t.Fatal(err)
		}
		if of, taken := macs[mac]; taken {
			t.Errorf("%s: the same key as %s", name, of)
		}
		macs[mac] = name
	}
	for _, n := range []int{0, 31, 33, 64} {
		if _, err := DeriveKey(make([]byte, n), salt, PurposeReceipt, task, job); err == nil {
			t.Errorf("secret of %d bytes accepted", n)
		}
		if k, err := NewKey(make([]byte, n)); err == nil || k != (Key{}) {
			t.Errorf("key of %d bytes accepted", n)
		}
	}
}

func TestKeyMAC(t *testing.T) {
	t.Parallel()
	key := vectorKey(t, testSecret)
	for _, message := range []string{"", "a", strings.Repeat("b", 1000)} {
		want := hmac.New(sha256.New, testSecret)
		want.Write([]byte(message))
		got, err := key.MAC([]byte(message))
		if err != nil || !bytes.Equal(got[:], want.Sum(nil)) {
			t.Errorf("%.10q: %s, %v", message, got, err)
		}
		if !key.Verify([]byte(message), got) {
			t.Errorf("%.10q: does not verify", message)
		}
		for i := range 8 * len(got) {
			flipped := got
			flipped[i/8] ^= 1 << (i % 8)
			if key.Verify([]byte(message), flipped) {
				t.Errorf("%.10q: verifies with bit %d flipped", message, i)
			}
		}
	}
	var zero Key
	if mac, err := zero.MAC(nil); err == nil || !mac.IsZero() {
		t.Errorf("zero key: %s, %v", mac, err)
	}
	if zero.Verify(nil, Digest{}) {
		t.Error("the zero key verifies something")
	}
}

func TestKeyConcurrent(t *testing.T) {
	t.Parallel()
	key := vectorKey(t, testSecret)
	var wg sync.WaitGroup
	for i := range 4 {
		message := bytes.Repeat([]byte{byte(i)}, 100*i)
		want, err := key.MAC(message)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			for range 500 {
				if got, err := key.MAC(message); err != nil || got != want || !key.Verify(message, want) {
					t.Errorf("message %d: %s, %v", i, got, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// No way of printing or encoding a key, or what holds one, shows its bytes.
func TestKeyIsSilent(t *testing.T) {
	t.Parallel()
	secret := []byte("0123456789abcdefghijklmnopqrstuv")
	key := vectorKey(t, secret)
	type holder struct {
		Name string
		Key  Key
	}
	type private struct{ key Key }
	values := []any{key, &key, holder{"n", key}, &holder{"n", key}, private{key}, []Key{key}, map[string]Key{"k": key}, [1]any{key}}
	silent := func(how, out string) {
		t.Helper()
		pads := make([]byte, 2*len(secret))
		for i, c := range secret {
			pads[i], pads[len(secret)+i] = c^0x36, c^0x5c
		}
		for _, s := range [][]byte{secret[:6], secret[26:], pads[:6], pads[32:38]} {
			forms := []string{string(s), hex.EncodeToString(s), strings.ToUpper(hex.EncodeToString(s)), strings.Trim(fmt.Sprint(s), "[]"), strings.ReplaceAll(strings.Trim(fmt.Sprint(s), "[]"), " ", ",")}
			for _, form := range forms {
				if strings.Contains(out, form) {
					t.Errorf("%s shows the key: %s", how, out)
				}
			}
		}
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x", "%X", "%q", "%d", "%b", "%o", "%U", "%c", "%t", "%T", "%p", "% x", "%#x", "%08d"} {
		for _, v := range values {
			silent(fmt.Sprintf("%s of %T", verb, v), fmt.Sprintf(verb, v))
		}
		if got := fmt.Sprintf(verb, key); verb != "%T" && verb != "%p" && got != "[receipt key]" {
			t.Errorf("%s prints %q", verb, got)
		}
	}
	silent("Println", fmt.Sprintln(values...))
	silent("an error", fmt.Errorf("wrapped: %v", key).Error())
	for name, handler := range map[string]func(*bytes.Buffer) slog.Handler{
		"slog text": func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
		"slog JSON": func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
	} {
		var out bytes.Buffer
		slog.New(handler(&out)).Info("key", "key", key, "holder", holder{"n", key})
		silent(name, out.String())
	}

	// What would encode the key is an error, not an empty value.
	for name, encode := range map[string]func(any) ([]byte, error){
		"json": json.Marshal,
		"xml":  xml.Marshal,
		"gob": func(v any) ([]byte, error) {
			var b bytes.Buffer
			err := gob.NewEncoder(&b).Encode(v)
			return nil, err
		},
		"canonical JSON": func(v any) ([]byte, error) { return Encode(v) },
	} {
		for _, v := range []any{key, &key, holder{"n", key}} {
			if name == "canonical JSON" {
				if _, tagged := v.(holder); tagged {
					continue // without tags it encodes no member at all
				}
			}
			if out, err := encode(v); err == nil {
				t.Errorf("%s of %T: %s", name, v, out)
			}
		}
		out, _ := encode(private{key})
		silent(name, string(out))
	}
	if b, err := key.MarshalText(); err == nil || b != nil {
		t.Errorf("text: %q", b)
	}
	if b, err := key.MarshalBinary(); err == nil || b != nil {
		t.Errorf("binary: %q", b)
	}
}
