const LOOPBACK = /^(localhost|127(\.\d+){3}|\[::1\])$/;

/** A host name, as `URL` gives it, of the very machine that asks. */
export function isLoopbackHost(hostname: string): boolean {
  return LOOPBACK.test(hostname);
}
