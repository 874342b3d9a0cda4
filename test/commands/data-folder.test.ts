// Missing and invalid files of the data folder.

import { afterEach, describe, expect, test } from "bun:test";
import { mkdirSync, readdirSync, readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { createTempFolder, runPostern, startPostern, stopPostern, stopAll } from "./run-postern.ts";

afterEach(stopAll);

describe("the files of the data folder", () => {
  for (const [what, content] of [
    ["empty", ""],
    ["cut", "abc"],
  ] as const) {
    test(`refuses to start with a secret that is ${what}`, async () => {
      const place = createTempFolder();
      const folder = path.join(place.folder, "data");
      mkdirSync(folder);
      writeFileSync(path.join(folder, "secret"), content);
      const { code, stderr } = await runPostern([], place.settings);
      expect(code).toBe(1);
      expect(stderr).toContain(path.join(folder, "secret"));
      expect(readFileSync(path.join(folder, "secret"), "utf8")).toBe(content);
      place.remove();
    });
  }

  test("creates the secret atomically, readable only by its owner", async () => {
    const place = createTempFolder();
    const folder = path.join(place.folder, "data");
    await stopPostern(await startPostern([], place.settings));
    const made = readFileSync(path.join(folder, "secret"), "utf8");
    await stopPostern(await startPostern([], place.settings));
    expect(made).toMatch(/^\w{43}$/);
    expect(readFileSync(path.join(folder, "secret"), "utf8")).toBe(made);
    expect(statSync(path.join(folder, "secret")).mode & 0o777).toBe(0o600);
    expect(readdirSync(folder).filter((name) => name.startsWith("secret"))).toEqual(["secret"]);
    place.remove();
  });

  test("stops if its store is moved away", async () => {
    const place = createTempFolder();
    const folder = path.join(place.folder, "data");
    const running = await startPostern([], place.settings);
    renameSync(folder, `${folder}-elsewhere`);
    const { code, stdout } = await running.exited;
    expect(code).toBe(1);
    expect(stdout).toContain("a file of the store was removed or replaced while it was in use");
    place.remove();
  });
});
