// Opens a connection to a provider. One of the few files that know the runtime: the rest of this room sees a socket as
// something to write on, to pause and to end.

/** Where a connection goes to; one that is kept may serve whatever goes to the same place. */
export interface Place {
  readonly host: string;
  readonly port: number;
  readonly secure: boolean;
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
  data(owner: Owner, bytes: Buffer): void;
  drained(owner: Owner): void;
  /** `clean`: the other end closed it in good order. */
  closed(owner: Owner, clean: boolean): void;
}

/** Connects, and gives the socket away as soon as a request may be written on it. */
export type Dial = <Owner extends object>(
  place: Place,
  events: SocketEvents<Owner>,
  own: (socket: Socket) => Owner,
) => Dialling<Owner>;

export interface Dialling<Owner> {
  readonly connected: Promise<Owner>;
  /** Leaves nothing behind of a connection that has not come about. */
  readonly giveUp: () => void;
}

interface Dialled {
  readonly events: SocketEvents<unknown>;
  /** Whom the socket belongs to, once it stands. */
  owner: object | undefined;
  /** Of the connection below. */
  wire: Wire | undefined;
  /** Until it stands, or has failed. */
  dialling:
    | { readonly ready: (socket: Wire) => void; readonly failed: (error: Error) => void }
    | undefined;
  isGivenUp: boolean;
}

type Wire = Bun.Socket<Dialled>;

const PROBE_AFTER_MS = 60_000;

const HANDLERS: Bun.SocketHandler<Dialled> = {
  open: (socket) => {
    if (reached(socket)) stands(socket);
  },
  data: (socket, bytes) => {
    const { owner, events } = socket.data;
    // Whoever speaks before he is asked does not speak HTTP.
    if (owner === undefined) socket.terminate();
    else events.data(owner, bytes);
  },
  drain: ({ data: { owner, events } }) => {
    if (owner !== undefined) events.drained(owner);
  },
  close: (socket, error) => {
    const { owner, events } = socket.data;
    failed(socket.data, error ?? new Error("the connection was closed"));
    if (owner !== undefined) events.closed(owner, error === undefined);
  },
  error: (socket) => {
    socket.terminate();
  },
  connectError: (socket, error) => failed(socket.data, error),
};

const SECURE_HANDLERS: Bun.SocketHandler<Dialled> = {
  ...HANDLERS,
  open: (socket) => {
    reached(socket);
  },
  // Nothing is written before the certificate is known to be good, and to be that host's.
  handshake: (socket, success, problem) => {
    if (success && problem === null && socket.authorized) return stands(socket);
    failed(socket.data, problem ?? new Error("the other end is not to be trusted"));
    socket.terminate();
  },
};

function reached(socket: Wire): boolean {
  socket.data.wire = socket;
  if (socket.data.isGivenUp) socket.terminate();
  return !socket.data.isGivenUp;
}

function stands(socket: Wire): void {
  const { dialling } = socket.data;
  socket.data.dialling = undefined;
  socket.setNoDelay(true);
  socket.setKeepAlive(true, PROBE_AFTER_MS);
  dialling?.ready(socket);
}

function failed(data: Dialled, error: Error): void {
  data.dialling?.failed(error);
  data.dialling = undefined;
}

export const dial: Dial = <Owner extends object>(
  { host, port, secure }: Place,
  events: SocketEvents<Owner>,
  own: (socket: Socket) => Owner,
) => {
  const connected = Promise.withResolvers<Owner>();
  const data: Dialled = {
    events,
    owner: undefined,
    wire: undefined,
    dialling: {
      ready: (socket) => {
        const owner = own(socket);
        data.owner = owner;
        connected.resolve(owner);
      },
      failed: connected.reject,
    },
    isGivenUp: false,
  };
  Bun.connect<Dialled>({
    hostname: host,
    port,
    data,
    socket: secure ? SECURE_HANDLERS : HANDLERS,
    ...(secure && {
      tls: { serverName: host, rejectUnauthorized: true, ALPNProtocols: "http/1.1" },
    }),
  }).catch((error: Error) => failed(data, error));
  return {
    connected: connected.promise,
    giveUp: () => {
      data.isGivenUp = true;
      data.wire?.terminate();
    },
  };
};
