// Opens a connection to a provider. One of the few files that know the runtime: the rest of this room sees a socket as
// something to write on, to pause and to end.

import { MINUTE_MS } from "../base/time.ts";

/** Where a connection goes to; one that is kept may serve whatever goes to the same place. */
export interface SocketAddress {
  readonly host: string;
  readonly port: number;
  readonly isSecure: boolean;
}

export interface Socket {
  /** How many bytes were taken; the rest has to wait until the socket has drained. */
  write(bytes: Uint8Array): number;
  pause(): void;
  resume(): void;
  terminate(): void;
}

/** What happens to a socket, told to whom it belongs. One such object serves all sockets of a kind. */
export interface SocketEvents<Owner> {
  onData(owner: Owner, bytes: Buffer): void;
  onDrain(owner: Owner): void;
  /** `clean`: the other end closed it in good order. */
  onClose(owner: Owner, clean: boolean): void;
}

/** Connects, and gives the socket away as soon as a request may be written on it. */
export type Dial = <Owner extends object>(
  address: SocketAddress,
  events: SocketEvents<Owner>,
  createOwner: (socket: Socket) => Owner,
) => PendingDial<Owner>;

export interface PendingDial<Owner> {
  readonly connected: Promise<Owner>;
  /** Leaves nothing behind of a connection that has not come about. */
  readonly cancel: () => void;
}

interface SocketState {
  readonly events: SocketEvents<unknown>;
  /** Whom the socket belongs to, once it stands. */
  owner: object | undefined;
  /** Of the connection below. */
  rawSocket: RawSocket | undefined;
  /** Until it stands, or has failed. */
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
    // Whoever speaks before he is asked does not speak HTTP.
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
  // Nothing is written before the certificate is known to be good, and to be that host's.
  handshake: (socket, success, problem) => {
    if (success && problem === null && socket.authorized) return resolveDial(socket);
    rejectDial(socket.data, problem ?? new Error("the other end is not to be trusted"));
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
