// Values of the Helm chart that turn on every option.

export const ALL_OPTIONS: readonly string[] = [
  "baseUrl=https://gateway.example.com",
  "existingSecret=postern",
  "autoscaling.enabled=true",
  "serviceMonitor.enabled=true",
  "networkPolicy.enabled=true",
  "image.pullSecrets[0].name=registry",
  "ingress.enabled=true",
  "ingress.host=gateway.example.com",
];

/** What Kubernetes sets in the pods of a namespace with a Service named `postern`. */
export const SERVICE_LINKS: Readonly<Record<string, string>> = {
  POSTERN_PORT: "tcp://10.96.0.12:80",
  POSTERN_PORT_80_TCP: "tcp://10.96.0.12:80",
  POSTERN_PORT_80_TCP_ADDR: "10.96.0.12",
  POSTERN_PORT_80_TCP_PORT: "80",
  POSTERN_PORT_80_TCP_PROTO: "tcp",
  POSTERN_SERVICE_HOST: "10.96.0.12",
  POSTERN_SERVICE_PORT: "80",
  POSTERN_SERVICE_PORT_HTTP: "80",
};
