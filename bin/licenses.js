// The license texts of what the executables and the npm package contain. `postern licenses` prints them.

import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { root } from "./bun.js";

/** In the folder of the bundle. */
export const LICENSES_FILE = "THIRD-PARTY-LICENSES.txt";

const BUN_LICENSES = `MIT. It contains JavaScriptCore (LGPL) and other libraries: their licenses, and how to link Bun with another JavaScriptCore,
are in https://github.com/oven-sh/bun/blob/bun-v{version}/LICENSE.md.`;

/** Of every package that is needed to run, and of Bun, which the executables contain and the npm package depends on. */
export function licenseTexts() {
  const { packages } = JSON.parse(readFileSync(path.join(root, "package-lock.json"), "utf8"));
  const bundled = Object.entries(packages).filter(
    (entry) => isDependency(entry) && !entry[1].dev && !entry[1].optional,
  );
  const bun = Object.entries(packages).find(([location]) => location.includes("@oven/bun-"))[1];
  return [
    `Bun ${bun.version}\n\n${BUN_LICENSES.replace("{version}", bun.version)}\n`,
    ...bundled.map(([location, { version, license }]) => {
      const name = location.split("node_modules/").at(-1);
      return `${name} ${version} (${license})\n\n${textOf(path.join(root, location), license)}\n`;
    }),
  ].join(`\n${"-".repeat(80)}\n\n`);
}

/** Whether an entry of package-lock.json is a package of the registry, and not one of this repository or the link to it. */
export function isDependency([location, { link }]) {
  return location.includes("node_modules/") && link !== true;
}

function textOf(folder, license) {
  const texts = readdirSync(folder)
    .filter((name) => /^(licen[cs]e|notice|copying)/i.test(name))
    .map((name) => readFileSync(path.join(folder, name), "utf8").trim());
  return texts.length > 0 ? texts.join("\n\n") : standardText(folder, license);
}

/** Some packages only name their license. */
function standardText(folder, license) {
  if (license !== "MIT") throw new Error(`${folder} has no license file, and names ${license}`);
  const own = readFileSync(path.join(root, "LICENSE"), "utf8").trim();
  const withoutHolder = own.replace(/^Copyright .*\n+/m, "");
  return `The package has no license file. Its package.json names the MIT license:\n\n${withoutHolder}`;
}
