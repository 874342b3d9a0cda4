// The address to listen on.

export interface ListenAddress {
  readonly host: string;
  readonly port: number;
}

/** Names the address and its setting, which the runtime's message does not. */
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
    return `${address} is in use: stop the process that listens there, or set ${settingNames.port}`;
  if (code === "EACCES")
    return `${address} needs elevated privileges: set ${settingNames.port} to a port above 1023`;
  return `cannot listen on ${address}: set ${settingNames.host} to an address of this machine, 127.0.0.1 for local access or 0.0.0.0 for all interfaces`;
}
