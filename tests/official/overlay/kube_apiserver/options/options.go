// Package options takes the place of kube-apiserver's options. Tests set these fields; nothing reads them.
package options

import (
	"time"

	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/storage/storagebackend"
)

type Admission struct {
	GenericAdmission *genericoptions.AdmissionOptions
}

type Authorization struct {
	Modes                       []string
	WebhookConfigFile           string
	WebhookVersion              string
	WebhookCacheAuthorizedTTL   time.Duration
	WebhookCacheUnauthorizedTTL time.Duration
}

type ServerRunOptions struct {
	GenericServerRunOptions      *genericoptions.ServerRunOptions
	Etcd                         *genericoptions.EtcdOptions
	APIEnablement                *genericoptions.APIEnablementOptions
	Features                     *genericoptions.FeatureOptions
	Admission                    *Admission
	Authorization                *Authorization
	ServiceAccountSigningKeyFile string
}

func NewServerRunOptions() *ServerRunOptions {
	return &ServerRunOptions{
		GenericServerRunOptions: genericoptions.NewServerRunOptions(),
		Etcd:                    genericoptions.NewEtcdOptions(storagebackend.NewDefaultConfig("", nil)),
		APIEnablement:           genericoptions.NewAPIEnablementOptions(),
		Features:                genericoptions.NewFeatureOptions(),
		Admission:               &Admission{GenericAdmission: genericoptions.NewAdmissionOptions()},
		Authorization:           &Authorization{},
	}
}
