// Limits the requests that one connection sends at once. The runtime hands over all requests that have arrived on a connection
// before it looks at another one, so thousands of pipelined requests would delay every other client by seconds.

/** More are never in flight for a client that pipelines on purpose. Browsers and SDKs do not pipeline. */
const PER_CONNECTION_MAX = 32;
/** Below this number of requests in one turn of the event loop, their connections need not be told apart. */
const TURN_MAX = 64;

/** Counts a request of this turn; true if its connection has sent too many. `connectionOf` is called only if there are many. */
export type CountPipelined = (connectionOf: () => string) => boolean;

/** `onTurnEnd` runs a function after the current turn of the event loop. */
export function createPipelineLimit(
  onTurnEnd: (run: () => void) => void = setImmediate,
): CountPipelined {
  const byConnection = new Map<string, number>();
  let requests = 0;
  const endTurn = (): void => {
    requests = 0;
    if (byConnection.size > 0) byConnection.clear();
  };
  return (connectionOf) => {
    if (requests === 0) onTurnEnd(endTurn);
    requests += 1;
    if (requests <= TURN_MAX) return false;
    const connection = connectionOf();
    const count = (byConnection.get(connection) ?? 0) + 1;
    byConnection.set(connection, count);
    return count > PER_CONNECTION_MAX;
  };
}
