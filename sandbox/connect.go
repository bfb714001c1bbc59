package sandbox

import (
	"fmt"
	"net/netip"
	"slices"
)

// maxConnect bounds Spec.Connect.
const maxConnect = 16

// stepRelay is what a mode that cannot relay is refused for.
const stepRelay = "relay ports of the host"

// checkConnect refuses what is not a list of different loopback ports.
func checkConnect(list []netip.AddrPort, n Network) error {
	switch {
	case len(list) == 0:
		return nil
	case n != NetworkNone:
		return fmt.Errorf("sandbox spec: ports to connect to, and network %q, which has them already", n)
	case len(list) > maxConnect:
		return fmt.Errorf("sandbox spec: %d ports to connect to, more than %d", len(list), maxConnect)
	}
	for i, at := range list {
		// A mapped address or one with a zone is another name for the same port.
		if a := at.Addr(); !a.IsLoopback() || a.Is4In6() || a.Zone() != "" || at.Port() == 0 {
			return fmt.Errorf("sandbox spec: %q is not a port of a loopback address", at)
		}
		if slices.Contains(list[:i], at) {
			return fmt.Errorf("sandbox spec: %s: there twice", at)
		}
	}
	return nil
}

// cannotRelay returns why a mode cannot relay ports, "" if it can.
func (m Mode) cannotRelay() string {
	switch m {
	case ModeContainer:
		return "the network namespace is the engine's: no socket can be made in it from here"
	case ModeRestricted:
		return "there is no network namespace of its own, and without one the filter permits no internet sockets"
	case ModeNone:
		return "the network is the host's: it would reach all ports, not these"
	}
	return ""
}
