// A thread for the test of threads that open the same new stores at once.

import { parentPort, workerData } from "node:worker_threads";
import { openSqlite } from "../../src/store/sqlite.ts";

interface Task {
  readonly folders: readonly string[];
  readonly threads: number;
  /** Counts the threads that have come to each folder. */
  readonly arrivals: SharedArrayBuffer;
}

const { folders, threads, arrivals } = workerData as Task;
const arrived = new Int32Array(arrivals);
const errors: string[] = [];
for (const [index, folder] of folders.entries()) {
  Atomics.add(arrived, index, 1);
  while (Atomics.load(arrived, index) < threads);
  try {
    await openSqlite({ folder, lock: false }).close();
  } catch (error) {
    errors.push(String(error));
  }
}
parentPort?.postMessage(errors);
