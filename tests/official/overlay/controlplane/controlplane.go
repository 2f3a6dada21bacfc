// Package controlplane takes the place of kube-apiserver's. Tests set these fields; nothing reads them.
package controlplane

import (
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
)

type ControlPlaneExtra struct {
	APIResourceConfigSource serverstorage.APIResourceConfigSource
}

type ControlPlane struct {
	Generic *genericapiserver.Config
	Extra   ControlPlaneExtra
}

type Config struct {
	ControlPlane ControlPlane
}

func DefaultAPIResourceConfigSource() *serverstorage.ResourceConfig { return serverstorage.NewResourceConfig() }
