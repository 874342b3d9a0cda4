// What an address to listen on means.

/** Whether only this machine reaches what listens there. */
export function isLoopback(host: string): boolean {
  return /^(localhost$|127\.|::1$)/.test(host);
}
