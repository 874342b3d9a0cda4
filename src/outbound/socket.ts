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
  readonly write: (bytes: Uint8Array) => number;
  readonly pause: () => void;
  readonly resume: () => void;
  readonly terminate: () => void;
}

export interface SocketEvents {
  readonly data: (bytes: Buffer) => void;
  readonly drained: () => void;
  /** `clean`: the other end closed it in good order. */
  readonly closed: (clean: boolean) => void;
}

/** Connects, and gives the socket away as soon as a request may be written on it. */
export type Dial = <Owner extends SocketEvents>(
  place: Place,
  own: (socket: Socket) => Owner,
) => Dialling<Owner>;

export interface Dialling<Owner> {
  readonly connected: Promise<Owner>;
  /** Leaves nothing behind of a connection that has not come about. */
  readonly giveUp: () => void;
}

interface Dialled {
  readonly ready: (socket: Wire) => void;
  readonly failed: (error: Error) => void;
  /** Of the connection below, once it stands. */
  wire: Wire | undefined;
  events: SocketEvents | undefined;
  isGivenUp: boolean;
}

type Wire = Bun.Socket<Dialled>;

const PROBE_AFTER_MS = 60_000;

const HANDLERS: Bun.SocketHandler<Dialled> = {
  open: (socket) => {
    if (reached(socket)) socket.data.ready(socket);
  },
  data: (socket, bytes) => {
    // Whoever speaks before he is asked does not speak HTTP.
    if (socket.data.events === undefined) socket.terminate();
    else socket.data.events.data(bytes);
  },
  drain: (socket) => socket.data.events?.drained(),
  close: (socket, error) => {
    socket.data.failed(error ?? new Error("the connection was closed"));
    socket.data.events?.closed(error === undefined);
  },
  error: (socket) => {
    socket.terminate();
  },
  connectError: (socket, error) => socket.data.failed(error),
};

const SECURE_HANDLERS: Bun.SocketHandler<Dialled> = {
  ...HANDLERS,
  open: (socket) => {
    reached(socket);
  },
  // Nothing is written before the certificate is known to be good, and to be that host's.
  handshake: (socket, success, problem) => {
    if (success && problem === null && socket.authorized) return socket.data.ready(socket);
    socket.data.failed(problem ?? new Error("the other end is not to be trusted"));
    socket.terminate();
  },
};

function reached(socket: Wire): boolean {
  socket.data.wire = socket;
  if (socket.data.isGivenUp) socket.terminate();
  return !socket.data.isGivenUp;
}

export const dial: Dial = <Owner extends SocketEvents>(
  { host, port, secure }: Place,
  own: (socket: Socket) => Owner,
) => {
  const connected = Promise.withResolvers<Owner>();
  const data: Dialled = {
    ready: (socket) => {
      const owner = own(socketOf(socket));
      data.events = owner;
      connected.resolve(owner);
    },
    failed: connected.reject,
    wire: undefined,
    events: undefined,
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
  }).catch(connected.reject);
  return {
    connected: connected.promise,
    giveUp: () => {
      data.isGivenUp = true;
      data.wire?.terminate();
    },
  };
};

function socketOf(socket: Wire): Socket {
  socket.setNoDelay(true);
  socket.setKeepAlive(true, PROBE_AFTER_MS);
  return {
    write: (bytes) => socket.write(bytes),
    pause: () => {
      socket.pause();
    },
    resume: () => {
      socket.resume();
    },
    terminate: () => socket.terminate(),
  };
}
