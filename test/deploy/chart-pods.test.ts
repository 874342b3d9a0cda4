// The pods of the Helm chart: their commands run with the rendered environment, the image's own, and that of Service links.

import { afterEach, expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import path from "node:path";
import { parseAllDocuments } from "yaml";
import { z } from "zod";
import {
  createTempFolder,
  runPostern,
  startPostern,
  stopAll,
  stopPostern,
} from "../commands/run-postern.ts";
import { freePort } from "../support/free-port.ts";
import { skipUnless } from "../support/skip.ts";
import { ROOT } from "../support/source/source-files.ts";
import { dropPostgres, testPostgres } from "../support/stores/postgres.ts";
import { dockerfile } from "./build-stage.ts";
import { ALL_OPTIONS, SERVICE_LINKS } from "./chart-options.ts";

const Pod = z.object({
  kind: z.enum(["Deployment", "Job"]),
  spec: z.object({
    template: z.object({
      spec: z.object({
        containers: z.tuple([
          z.object({
            args: z.array(z.string()).default([]),
            env: z.array(z.object({ name: z.string(), value: z.string().optional() })),
          }),
        ]),
      }),
    }),
  }),
});

const isInstalled = spawnSync("helm", ["version", "--short"]).status === 0;

afterEach(stopAll);

test.skipIf(skipUnless(isInstalled, "helm is not installed; it renders the pods that are run"))(
  "the migration job and the gateway of the chart run",
  async () => {
    const chart = path.join(ROOT, "deploy/helm/postern");
    const values = ALL_OPTIONS.flatMap((value) => ["--set", value]);
    const { stdout } = spawnSync("helm", ["template", "postern", chart, ...values], {
      encoding: "utf8",
    });
    const pods = parseAllDocuments(stdout).flatMap((one) => Pod.safeParse(one.toJS()).data ?? []);
    const containerOf = (kind: "Deployment" | "Job") => {
      const [container] =
        pods.find((pod) => pod.kind === kind)?.spec.template.spec.containers ?? [];
      if (container === undefined) throw new Error(`the chart has no ${kind}`);
      return container;
    };
    const temp = createTempFolder();
    const database = await testPostgres();
    const image = Object.fromEntries(
      [...dockerfile.join("\n").matchAll(/\b(POSTERN_\w+)=(\S+)/g)].map(
        ([, name = "", value = ""]) => [name, value],
      ),
    );
    const settingsOf = (
      container: ReturnType<typeof containerOf>,
    ): Readonly<Record<string, string>> => ({
      ...image,
      // As with enableServiceLinks: true, beside which the chart sets its own port.
      ...SERVICE_LINKS,
      DATABASE_URL: database,
      POSTERN_SECRET: "s".repeat(44),
      OPENAI_API_KEY: "k",
      ...Object.fromEntries(container.env.map(({ name, value = "pod-1" }) => [name, value])),
    });
    const job = containerOf("Job");
    const migrated = await runPostern(job.args, settingsOf(job));
    expect(migrated).toMatchObject({ code: 0, stdout: expect.stringContaining("Applied 0001") });
    const gateway = containerOf("Deployment");
    const settings = settingsOf(gateway);
    expect(settings["POSTERN_PORT"]).toBe("8787");
    const running = await startPostern(gateway.args, {
      ...settings,
      POSTERN_PORT: String(await freePort()),
      POSTERN_DATA_DIR: temp.folder,
    });
    // The paths of the probes.
    for (const probe of ["/healthz", "/readyz"])
      expect([probe, (await fetch(running.url + probe)).status]).toEqual([probe, 200]);
    expect((await stopPostern(running)).code).toBe(0);
    await dropPostgres(database);
    temp.remove();
  },
);
