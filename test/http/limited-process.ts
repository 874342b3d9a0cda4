// A gateway in a process of its own, outside development mode, with few file descriptors.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { eventually } from "../support/eventually.ts";
import { PROGRAM, PROGRAM_SETTINGS } from "../support/program.ts";

export interface LimitedProcess {
  readonly port: number;
  readonly url: string;
  readonly logLines: () => readonly string[];
  readonly stop: () => Promise<void>;
}

export async function startLimitedProcess(
  descriptors: number,
  env: Readonly<Record<string, string>> = {},
): Promise<LimitedProcess> {
  const folder = mkdtempSync(path.join(tmpdir(), "postern-descriptors-"));
  const command = `ulimit -n ${descriptors}; exec "$0" "$@"`;
  const child = Bun.spawn(["sh", "-c", command, ...PROGRAM], {
    env: {
      ...PROGRAM_SETTINGS,
      PATH: process.env["PATH"] ?? "",
      POSTERN_BASE_URL: "https://gateway.example.com",
      POSTERN_SECRET: "a secret of at least 32 characters",
      POSTERN_DATA_DIR: folder,
      POSTERN_PORT: "0",
      ...env,
    },
    stdout: "pipe",
    stderr: "pipe",
  });
  let output = "";
  const reading = (async () => {
    for await (const chunk of child.stdout) output += new TextDecoder().decode(chunk);
  })();
  await eventually(() => output.includes('"listening"'));
  const port = Number(/"port":(\d+)/.exec(output)?.[1]);
  return {
    port,
    url: `http://127.0.0.1:${port}`,
    logLines: () => output.split("\n"),
    stop: async () => {
      child.kill("SIGKILL");
      await child.exited;
      await reading;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
