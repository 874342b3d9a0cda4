// The open circuits of all processes. A circuit breaker is in the memory of its process, so each process writes the names
// of its open circuits to its row of a table.

import { SECOND_MS } from "../../base/time.ts";
import { type Db, type Reader, text } from "../../store/db.ts";

/** A process whose heartbeat is older does not count; heartbeats are written every five seconds. */
const SILENCE_MAX_MS = 30 * SECOND_MS;
const CIRCUITS_MAX = 100;

export interface OpenCircuit {
  readonly process: string;
  readonly provider: string;
  /** The label of the credential at the provider. */
  readonly account: string;
  readonly model: string;
}

export interface CircuitWriterDeps {
  readonly db: Db;
  readonly process: string;
  /** Provider, account and model of each open circuit, separated by spaces. */
  readonly listOpen: () => readonly string[];
}

/** A job; writes only what changed. */
export function createCircuitWriter({
  db,
  process,
  listOpen,
}: CircuitWriterDeps): () => Promise<void> {
  let written: string | undefined;
  return async () => {
    const circuits = JSON.stringify(listOpen().slice(0, CIRCUITS_MAX));
    if (circuits === written) return;
    await db.write((tx) =>
      tx.run(
        "insert into open_circuits (process, circuits) values (?, ?) on conflict (process) do update set circuits = excluded.circuits",
        [process, circuits],
      ),
    );
    written = circuits;
  };
}

export async function readOpenCircuits(
  reader: Reader,
  now: number,
): Promise<readonly OpenCircuit[]> {
  const rows = await reader.all(
    "select name, circuits from open_circuits join process on name = process where seen_at > ? order by name",
    [now - SILENCE_MAX_MS],
  );
  return rows.flatMap((row) => {
    // Written by `createCircuitWriter`.
    const circuits = JSON.parse(text(row, "circuits")) as readonly string[];
    return circuits.map((circuit) => {
      const [provider = "", account = "", ...model] = circuit.split(" ");
      return { process: text(row, "name"), provider, account, model: model.join(" ") };
    });
  });
}
