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
  readonly closed: () => void;
}

/** Connects, and gives the socket away as soon as a request may be written on it. */
export type Dial = <Owner extends SocketEvents>(
  place: Place,
  own: (socket: Socket) => Owner,
) => Promise<Owner>;

interface Dialled {
  readonly ready: (socket: Wire) => void;
  readonly failed: (error: Error) => void;
  events: SocketEvents | undefined;
}

type Wire = Bun.Socket<Dialled>;

const PROBE_AFTER_MS = 60_000;

const HANDLERS: Bun.SocketHandler<Dialled> = {
  open: (socket) => socket.data.ready(socket),
  data: (socket, bytes) => {
    // Whoever speaks before he is asked does not speak HTTP.
    if (socket.data.events === undefined) socket.terminate();
    else socket.data.events.data(bytes);
  },
  drain: (socket) => socket.data.events?.drained(),
  close: (socket) => {
    socket.data.failed(new Error("the connection was closed"));
    socket.data.events?.closed();
  },
  error: (socket) => {
    socket.terminate();
  },
  connectError: (socket, error) => socket.data.failed(error),
};

const SECURE_HANDLERS: Bun.SocketHandler<Dialled> = {
  ...HANDLERS,
  open: () => {},
  // Nothing is written before the certificate is known to be good, and to be that host's.
  handshake: (socket, success, problem) => {
    if (success && problem === null && socket.authorized) return socket.data.ready(socket);
    socket.data.failed(problem ?? new Error("the other end is not to be trusted"));
    socket.terminate();
  },
};

export const dial: Dial = ({ host, port, secure }, own) =>
  new Promise((resolve, reject) => {
    const data: Dialled = {
      ready: (socket) => {
        const owner = own(socketOf(socket));
        data.events = owner;
        resolve(owner);
      },
      failed: reject,
      events: undefined,
    };
    Bun.connect<Dialled>({
      hostname: host,
      port,
      data,
      socket: secure ? SECURE_HANDLERS : HANDLERS,
      ...(secure && {
        tls: { serverName: host, rejectUnauthorized: true, ALPNProtocols: "http/1.1" },
      }),
    }).catch(reject);
  });

function socketOf(socket: Wire): Socket {
  socket.setNoDelay(true);
  socket.setKeepAlive(true, PROBE_AFTER_MS);
  return {
    write: (bytes) => socket.write(bytes),
    pause: () => void socket.pause(),
    resume: () => void socket.resume(),
    terminate: () => socket.terminate(),
  };
}
