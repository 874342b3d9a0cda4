const LOOPBACK = /^(localhost|127(\.\d+){3}|\[::1\])$/;

/** Takes a host name in the form of `URL.hostname`. */
export function isLoopbackHost(hostname: string): boolean {
  return LOOPBACK.test(hostname);
}
