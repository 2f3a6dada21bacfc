// Package app takes the place of kube-apiserver itself. Services are resolved by the server under test.
package app

func SetServiceResolverForTests(_ any) func() { return func() {} }
