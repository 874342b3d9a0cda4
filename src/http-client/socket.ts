// Opens TCP and TLS connections. The only file of this folder that uses Bun's socket API.

import { MINUTE_MS } from "../base/time.ts";

export interface SocketAddress {
  readonly host: string;
  readonly port: number;
  readonly isSecure: boolean;
}

export interface Socket {
  /** Returns the number of bytes accepted; the rest can be written after `onDrain`. */
  write(bytes: Uint8Array): number;
  pause(): void;
  resume(): void;
  terminate(): void;
}

/** Callbacks of a socket. One object serves all sockets and receives the owner of each. */
export interface SocketEvents<Owner> {
  onData(owner: Owner, bytes: Buffer): void;
  onDrain(owner: Owner): void;
  /** `isClean`: the server closed the connection without an error. */
  onClose(owner: Owner, isClean: boolean): void;
}

/** Connects; resolves when a request can be written. */
export type Dial = <Owner extends object>(
  address: SocketAddress,
  events: SocketEvents<Owner>,
  createOwner: (socket: Socket) => Owner,
) => PendingDial<Owner>;

interface PendingDial<Owner> {
  readonly connected: Promise<Owner>;
  /** Closes a connection that is not established yet. */
  readonly cancel: () => void;
}

interface SocketState {
  readonly events: SocketEvents<unknown>;
  /** Set once the connection is established. */
  owner: object | undefined;
  /** The TCP connection, which TLS may still be negotiated on. */
  rawSocket: RawSocket | undefined;
  /** Set until the connection is established or has failed. */
  pending:
    | { readonly ready: (socket: RawSocket) => void; readonly failed: (error: Error) => void }
    | undefined;
  isCanceled: boolean;
}

type RawSocket = Bun.Socket<SocketState>;

const KEEPALIVE_AFTER_MS = MINUTE_MS;

const HANDLERS: Bun.SocketHandler<SocketState> = {
  open: (socket) => {
    if (onTcpConnect(socket)) resolveDial(socket);
  },
  data: (socket, bytes) => {
    const { owner, events } = socket.data;
    // An HTTP server does not send before a request.
    if (owner === undefined) socket.terminate();
    else events.onData(owner, bytes);
  },
  drain: ({ data: { owner, events } }) => {
    if (owner !== undefined) events.onDrain(owner);
  },
  close: (socket, error) => {
    const { owner, events } = socket.data;
    rejectDial(socket.data, error ?? new Error("the connection was closed"));
    if (owner !== undefined) events.onClose(owner, error === undefined);
  },
  error: (socket) => {
    socket.terminate();
  },
  connectError: (socket, error) => rejectDial(socket.data, error),
};

const SECURE_HANDLERS: Bun.SocketHandler<SocketState> = {
  ...HANDLERS,
  open: (socket) => {
    onTcpConnect(socket);
  },
  // Nothing is written before the certificate is verified for the host.
  handshake: (socket, success, problem) => {
    if (success && problem === null && socket.authorized) return resolveDial(socket);
    rejectDial(socket.data, problem ?? new Error("the server's certificate is not trusted"));
    socket.terminate();
  },
};

function onTcpConnect(socket: RawSocket): boolean {
  socket.data.rawSocket = socket;
  if (socket.data.isCanceled) socket.terminate();
  return !socket.data.isCanceled;
}

function resolveDial(socket: RawSocket): void {
  const { pending } = socket.data;
  socket.data.pending = undefined;
  socket.setNoDelay(true);
  socket.setKeepAlive(true, KEEPALIVE_AFTER_MS);
  pending?.ready(socket);
}

function rejectDial(data: SocketState, error: Error): void {
  data.pending?.failed(error);
  data.pending = undefined;
}

export const dial: Dial = <Owner extends object>(
  { host, port, isSecure }: SocketAddress,
  events: SocketEvents<Owner>,
  createOwner: (socket: Socket) => Owner,
) => {
  const connected = Promise.withResolvers<Owner>();
  const data: SocketState = {
    events,
    owner: undefined,
    rawSocket: undefined,
    pending: {
      ready: (socket) => {
        const owner = createOwner(socket);
        data.owner = owner;
        connected.resolve(owner);
      },
      failed: connected.reject,
    },
    isCanceled: false,
  };
  Bun.connect<SocketState>({
    hostname: host,
    port,
    data,
    socket: isSecure ? SECURE_HANDLERS : HANDLERS,
    ...(isSecure && {
      tls: { serverName: host, rejectUnauthorized: true, ALPNProtocols: "http/1.1" },
    }),
  }).catch((error: Error) => rejectDial(data, error));
  return {
    connected: connected.promise,
    cancel: () => {
      data.isCanceled = true;
      data.rawSocket?.terminate();
    },
  };
};
