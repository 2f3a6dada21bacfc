"""Fair queuing across tenants, rates, and time slices of the event loop (apiserver pkg/util/flowcontrol)."""
