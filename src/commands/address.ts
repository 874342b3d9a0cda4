// What an address to listen on means.

export interface Place {
  readonly host: string;
  readonly port: number;
}

/** Whether only this machine reaches what listens there. */
export function isLoopback(host: string): boolean {
  return /^(localhost$|127\.|\[?::1\]?$)/i.test(host);
}

/** Why nothing can listen there, with what it was set by: the runtime's own words name neither. */
export function cannotListen(
  { host, port }: Place,
  setBy: { readonly host: string; readonly port: string },
  cause: unknown,
): Error {
  const code = cause instanceof Error && "code" in cause ? String(cause.code) : "";
  return new Error(whyNot(`port ${port} of ${host}`, setBy, code), { cause });
}

function whyNot(
  place: string,
  setBy: { readonly host: string; readonly port: string },
  code: string,
): string {
  if (code === "EADDRINUSE")
    return `${place} is taken: stop what listens there, or set ${setBy.port}`;
  if (code === "EACCES")
    return `${place} is kept for privileged users: set ${setBy.port} to one above 1023`;
  return `nothing can listen on ${place}: set ${setBy.host} to an address of this machine, 127.0.0.1 for itself alone or 0.0.0.0 for all`;
}
