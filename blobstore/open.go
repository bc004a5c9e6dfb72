package blobstore

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// OpenBucket opens the bucket that a configuration names:
//
//	dir:PATH                a directory, made when missing
//	memory:                 this process's memory, for tests and trials
//	s3://BUCKET[/PREFIX]    any S3-compatible store, with the options
//	    ?endpoint=URL         its address; without it, AWS's for the region
//	    &region=NAME          else the AWS chain's; us-east-1 when an endpoint is given
//	    &path_style=true      the bucket in the path, not in the host name
//	    &attempts=N           how often a request is sent before its failure is reported; 5
//	    &public_endpoint=URL  its address for clients, when that is another: see PresignGet
//
// Credentials come from the AWS chain (environment, shared files, instance role)
// and never from the specification, which is shown in logs and on pages. An unknown
// option is an error. Nothing is created in S3, and nothing asked of it yet.
func OpenBucket(ctx context.Context, spec string) (Bucket, error) {
	scheme, rest, found := strings.Cut(spec, ":")
	if !found {
		return nil, fmt.Errorf("blobstore: %q is no bucket: want dir:PATH, memory: or s3://BUCKET", spec)
	}
	switch scheme {
	case "dir":
		if rest == "" {
			return nil, fmt.Errorf("blobstore: %q names no directory", spec)
		}
		return OpenDir(rest)
	case "memory":
		if rest != "" {
			return nil, fmt.Errorf("blobstore: memory: takes nothing after the colon, has %q", rest)
		}
		return NewMemory(), nil
	case "s3":
		c, err := parseS3(spec)
		if err != nil {
			return nil, err
		}
		return OpenS3(ctx, c)
	default:
		return nil, fmt.Errorf("blobstore: unknown kind of bucket %q: want dir, memory or s3", scheme)
	}
}

// parseS3 reads an s3:// specification.
func parseS3(spec string) (S3Config, error) {
	u, err := url.Parse(spec)
	if err != nil {
		return S3Config{}, fmt.Errorf("blobstore: parse bucket: %w", err)
	}
	if u.User != nil {
		return S3Config{}, fmt.Errorf("blobstore: s3://%s has credentials in it: they belong into the environment", u.Host)
	}
	c := S3Config{Bucket: u.Host, Prefix: strings.Trim(u.Path, "/")}
	options, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return S3Config{}, fmt.Errorf("blobstore: parse options of s3://%s: %w", u.Host, err)
	}
	for name, values := range options {
		value := values[len(values)-1]
		switch name {
		case "endpoint":
			c.Endpoint = value
		case "public_endpoint":
			c.PublicEndpoint = value
		case "region":
			c.Region = value
		case "attempts":
			if c.Attempts, err = strconv.Atoi(value); err != nil || c.Attempts < 1 {
				return S3Config{}, fmt.Errorf("blobstore: attempts of s3://%s is %q: want 1 or more", u.Host, value)
			}
		case "path_style":
			if value != "true" && value != "false" {
				return S3Config{}, fmt.Errorf("blobstore: path_style of s3://%s is %q: want true or false", u.Host, value)
			}
			c.PathStyle = value == "true"
		default:
			return S3Config{}, fmt.Errorf("blobstore: s3://%s has an unknown option %q", u.Host, name)
		}
	}
	return c, nil
}
