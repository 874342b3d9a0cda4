// Opens TCP and TLS connections. The only file of this folder that uses Bun's socket API.

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

/** Callbacks of the sockets of one kind of owner. */
export interface SocketEvents<Owner> {
  onData(owner: Owner, bytes: Buffer): void;
  onDrain(owner: Owner): void;
  /** `error` is undefined if the server closed the connection properly. */
  onClose(owner: Owner, error: Error | undefined): void;
}

/** What a socket belongs to. It is the socket's own data, so that nothing else is read between a socket and its owner. */
export interface SocketOwner {
  readonly events: SocketEvents<unknown>;
}

/** Connects; resolves when a request can be written. */
export type Dial = <Owner extends SocketOwner>(
  address: SocketAddress,
  createOwner: (socket: Socket) => Owner,
) => PendingDial<Owner>;

interface PendingDial<Owner> {
  readonly connected: Promise<Owner>;
  /** Closes a connection that is not established yet. */
  readonly cancel: () => void;
}

/** The owner of a socket until its connection is established. */
interface Dialing extends SocketOwner {
  readonly createOwner: (socket: Socket) => SocketOwner;
  readonly failed: (error: Error) => void;
  /** The TCP connection, which TLS may still be negotiated on. */
  rawSocket: RawSocket | undefined;
  isCanceled: boolean;
}

type RawSocket = Bun.Socket<SocketOwner>;

const KEEPALIVE_AFTER_MS = 60_000;

const DIALING_EVENTS: SocketEvents<Dialing> = {
  // An HTTP server does not send before a request.
  onData: ({ rawSocket }) => rawSocket?.terminate(),
  onDrain: () => {},
  onClose: ({ failed }, error) => failed(error ?? new Error("the connection was closed")),
};

const HANDLERS: Bun.SocketHandler<SocketOwner> = {
  open: (socket) => {
    if (onTcpConnect(socket)) finishDial(socket);
  },
  data: ({ data: owner }, bytes) => owner.events.onData(owner, bytes),
  drain: ({ data: owner }) => owner.events.onDrain(owner),
  close: ({ data: owner }, error) => owner.events.onClose(owner, error),
  error: (socket) => {
    socket.terminate();
  },
  connectError: ({ data: owner }, error) => owner.events.onClose(owner, error),
};

const SECURE_HANDLERS: Bun.SocketHandler<SocketOwner> = {
  ...HANDLERS,
  open: (socket) => {
    onTcpConnect(socket);
  },
  // Nothing is written before the certificate is verified for the host.
  handshake: (socket, success, problem) => {
    if (success && problem === null && socket.authorized) return finishDial(socket);
    if (isDialing(socket.data))
      socket.data.failed(problem ?? new Error("the server's certificate is not trusted"));
    socket.terminate();
  },
};

function isDialing(owner: SocketOwner): owner is Dialing {
  return owner.events === DIALING_EVENTS;
}

function onTcpConnect(socket: RawSocket): boolean {
  if (!isDialing(socket.data)) return false;
  socket.data.rawSocket = socket;
  if (socket.data.isCanceled) socket.terminate();
  return !socket.data.isCanceled;
}

function finishDial(socket: RawSocket): void {
  if (!isDialing(socket.data)) return;
  socket.setNoDelay(true);
  socket.setKeepAlive(true, KEEPALIVE_AFTER_MS);
  socket.data = socket.data.createOwner(socket);
}

export const dial: Dial = <Owner extends SocketOwner>(
  { host, port, isSecure }: SocketAddress,
  createOwner: (socket: Socket) => Owner,
) => {
  const connected = Promise.withResolvers<Owner>();
  const dialing: Dialing = {
    events: DIALING_EVENTS,
    createOwner: (socket) => {
      const owner = createOwner(socket);
      connected.resolve(owner);
      return owner;
    },
    failed: connected.reject,
    rawSocket: undefined,
    isCanceled: false,
  };
  Bun.connect<SocketOwner>({
    hostname: host,
    port,
    data: dialing,
    socket: isSecure ? SECURE_HANDLERS : HANDLERS,
    ...(isSecure && {
      tls: { serverName: host, rejectUnauthorized: true, ALPNProtocols: "http/1.1" },
    }),
  }).catch(dialing.failed);
  return {
    connected: connected.promise,
    cancel: () => {
      dialing.isCanceled = true;
      dialing.rawSocket?.terminate();
    },
  };
};
