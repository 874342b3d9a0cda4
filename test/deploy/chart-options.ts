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
