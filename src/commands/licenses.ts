// `postern licenses`: the build embeds the texts in the executable, and puts them beside the bundle of the npm package.

import { readFile } from "node:fs/promises";
import path from "node:path";
import type { Command } from "./command.ts";

const FILE = "THIRD-PARTY-LICENSES.txt";

export const licenses: Command = {
  summary: "Print the licenses of the packages in this program",
  positionals: [],
  flags: {},
  run: async (_line, cli) => {
    const texts = await readFile(path.join(import.meta.dirname, FILE), "utf8").catch(
      (cause: unknown) => {
        throw new Error(
          "This is a checkout, not a build: the license of each package is in its folder of node_modules.",
          { cause },
        );
      },
    );
    cli.print(texts);
    return 0;
  },
};
