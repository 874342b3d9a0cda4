// What an address to listen on means.

export interface ListenAddress {
  readonly host: string;
  readonly port: number;
}

/** Whether only this machine reaches what listens there. */
export function isLoopback(host: string): boolean {
  return /^(localhost$|127\.|\[?::1\]?$)/i.test(host);
}

/** Why nothing can listen there, with what it was set by: the runtime's own words name neither. */
export function listenError(
  { host, port }: ListenAddress,
  settingNames: { readonly host: string; readonly port: string },
  cause: unknown,
): Error {
  const code = cause instanceof Error && "code" in cause ? String(cause.code) : "";
  return new Error(listenErrorMessage(`port ${port} of ${host}`, settingNames, code), { cause });
}

function listenErrorMessage(
  address: string,
  settingNames: { readonly host: string; readonly port: string },
  code: string,
): string {
  if (code === "EADDRINUSE")
    return `${address} is taken: stop what listens there, or set ${settingNames.port}`;
  if (code === "EACCES")
    return `${address} is kept for privileged users: set ${settingNames.port} to one above 1023`;
  return `nothing can listen on ${address}: set ${settingNames.host} to an address of this machine, 127.0.0.1 for itself alone or 0.0.0.0 for all`;
}
