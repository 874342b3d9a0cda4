const LOOPBACK = /^(localhost|127(\.\d+){3}|\[?::1\]?)$/i;

/** Takes a host name or an IP address, also in the form of `URL.hostname`. */
export function isLoopbackHost(hostname: string): boolean {
  return LOOPBACK.test(hostname);
}
