// What an operator gets wrong: doctor names each problem in one line, says what follows for users, and has the right exit code.

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { SQL } from "bun";
import { type SmtpReceiver, startSmtpReceiver } from "../email/smtp-receiver.ts";
import { CLIENT, type FakeIssuer, startFakeIssuer } from "../people/fake-oidc-issuer.ts";
import { eventually } from "../support/eventually.ts";
import { type FakeStripe, startFakeStripe } from "../support/fakes/stripe.ts";
import { runInProcess } from "../support/run-command.ts";
import { dropPostgres, migratedPostgres } from "../support/stores/postgres.ts";
import {
  createTempFolder,
  runPostern,
  type Settings,
  startPostern,
  stopPostern,
} from "./run-postern.ts";

const UNREACHABLE = "http://127.0.0.1:1";
const PUBLIC = {
  POSTERN_BASE_URL: "https://gateway.example.com",
  POSTERN_SECRET: "x".repeat(40),
  POSTERN_TRUSTED_PROXIES: "10.0.0.0/8",
};
const temp = createTempFolder();
let smtp: SmtpReceiver;
let issuer: FakeIssuer;
let stripe: FakeStripe;
let provider: ReturnType<typeof Bun.serve>;

beforeAll(async () => {
  [smtp, issuer, stripe] = [await startSmtpReceiver(), await startFakeIssuer(), startFakeStripe()];
  provider = Bun.serve({
    port: 0,
    fetch: ({ headers, url }) =>
      new Response("{}", {
        status: url.endsWith("/hook")
          ? 404
          : headers.get("authorization") === "Bearer good"
            ? 200
            : 401,
      }),
  });
});
afterAll(async () => {
  await Promise.all([smtp.stop(), issuer.close(), stripe.stop(), provider.stop(true)]);
  temp.remove();
});

/** Writes a file and returns its path. */
function fileWith(name: string, text: string): string {
  const file = path.join(temp.folder, name);
  writeFileSync(file, text);
  return file;
}

const doctor = (settings: Settings) => runInProcess(["doctor"], { ...temp.settings, ...settings });

interface Misconfiguration {
  readonly title: string;
  readonly settings: () => Settings;
  /** In one line of the output. */
  readonly line: RegExp;
  readonly code: 0 | 1 | 2;
}

const base = (): string => provider.url.href.replace(/\/$/, "");
const oidc = (secret: string): Settings => ({
  OIDC_ISSUER: issuer.issuer,
  OIDC_CLIENT_ID: CLIENT.id,
  OIDC_CLIENT_SECRET: secret,
});
const modelsFile = (name: string, text: string): Settings => ({
  POSTERN_MODELS_FILE: fileWith(name, text),
});
const ownProvider = (more: Readonly<Record<string, unknown>>): string =>
  JSON.stringify({
    providers: [{ id: "own", base_url: base(), wires: ["chat"], ...more }],
    models: [
      {
        id: "own/m",
        wires: ["chat"],
        context_length: 100,
        pricing: { tokens: { input: "1", output: "1" } },
      },
    ],
  });

const MISCONFIGURATIONS: readonly Misconfiguration[] = [
  {
    title: "a port that is no number",
    settings: () => ({ POSTERN_PORT: "80a" }),
    line: /^ {2}fail {2}settings +POSTERN_PORT must be a whole number/,
    code: 2,
  },
  {
    title: "a misspelled setting",
    settings: () => ({ POSTERN_BASEURL: "https://gateway.example.com" }),
    line: /fail {2}settings +POSTERN_BASEURL is not a setting; did you mean POSTERN_BASE_URL\?/,
    code: 2,
  },
  {
    title: "a public gateway without a secret",
    settings: () => ({ POSTERN_BASE_URL: "https://gateway.example.com" }),
    line: /fail {2}settings +POSTERN_SECRET must be set.*openssl rand/,
    code: 2,
  },
  {
    title: "a development gateway on all interfaces",
    settings: () => ({ POSTERN_HOST: "0.0.0.0" }),
    line: /fail {2}settings +POSTERN_HOST must be 127\.0\.0\.1/,
    code: 2,
  },
  {
    title: "a base URL with a path",
    settings: () => ({ POSTERN_BASE_URL: "https://example.com/ai" }),
    line: /fail {2}settings +POSTERN_BASE_URL must be scheme, host and port only/,
    code: 2,
  },
  {
    title: "a base URL without TLS",
    settings: () => ({ ...PUBLIC, POSTERN_BASE_URL: "http://gateway.example.com" }),
    line: /fail {2}address +http:\/\/gateway\.example\.com is not https/,
    code: 1,
  },
  {
    title: "no provider",
    settings: () => PUBLIC,
    line: /fail {2}providers +no provider key is set/,
    code: 1,
  },
  {
    title: "a provider key with a line break",
    settings: () => ({ OPENAI_API_KEY: "sk-1\n" }),
    line: /fail {2}settings +OPENAI_API_KEY contains whitespace/,
    code: 2,
  },
  {
    title: "a provider key that is rejected",
    settings: () => ({ OPENAI_API_KEY: "bad", OPENAI_BASE_URL: base() }),
    line: /fail {2}openai +OpenAI rejects the key \(401\)/,
    code: 1,
  },
  {
    title: "a timeout that is no number",
    settings: () => ({ OPENAI_API_KEY: "good", OPENAI_REQUEST_TIMEOUT_SECONDS: "5m" }),
    line: /fail {2}settings +OPENAI_REQUEST_TIMEOUT_SECONDS must be a whole number/,
    code: 2,
  },
  {
    title: "a models file that is not JSON",
    settings: () => modelsFile("broken.json", '{\n  "models": [],\n  "hide": ["a" "b"]\n}\n'),
    line: /fail {2}models +\S+broken\.json: The models file is not valid JSON in line 3: /,
    code: 2,
  },
  {
    title: "a models file with an unknown key",
    settings: () => modelsFile("unknown.json", '{"model": []}'),
    line: /fail {2}models +\S+unknown\.json: The models file is not valid: .*"model"/,
    code: 2,
  },
  {
    title: "a models file that does not exist",
    settings: () => ({ POSTERN_MODELS_FILE: path.join(temp.folder, "none.json") }),
    line: /fail {2}models +POSTERN_MODELS_FILE: \S+none\.json does not exist/,
    code: 2,
  },
  {
    title: "a provider of the models file without its key",
    settings: () => modelsFile("key.json", ownProvider({ api_key_env: "OWN_KEY" })),
    line: /fail {2}own +own of the models file has no key: OWN_KEY is not set/,
    code: 1,
  },
  {
    title: "a provider of the models file that rejects its key",
    settings: () => ({
      ...modelsFile("rejected.json", ownProvider({ api_key_env: "OWN_KEY" })),
      OWN_KEY: "bad",
    }),
    line: /fail {2}own +own rejects the key \(401\)/,
    code: 1,
  },
  {
    title: "a provider of the models file that cannot be reached",
    settings: () => modelsFile("away.json", ownProvider({ base_url: UNREACHABLE })),
    line: /fail {2}own +own cannot be reached at http:\/\/127\.0\.0\.1:1/,
    code: 1,
  },
  {
    title: "Stripe's publishable key",
    settings: () => ({ STRIPE_SECRET_KEY: "pk_live_1" }),
    line: /fail {2}settings +STRIPE_SECRET_KEY is a publishable key/,
    code: 2,
  },
  {
    title: "the id of a Stripe webhook instead of its secret",
    settings: () => ({ ...stripe.env, STRIPE_WEBHOOK_SECRET: "we_1MqDcVKA5fEO2tZv" }),
    line: /fail {2}settings +STRIPE_WEBHOOK_SECRET must be the signing secret/,
    code: 2,
  },
  {
    title: "a Stripe key that is rejected",
    settings: () => ({ ...stripe.env, STRIPE_SECRET_KEY: "sk_test_wrong" }),
    line: /fail {2}payments +Stripe does not accept STRIPE_SECRET_KEY/,
    code: 1,
  },
  {
    title: "a wrong SMTP password",
    settings: () => ({
      POSTERN_SMTP_URL: smtp.url.replace("p%40ss", "other"),
      POSTERN_EMAIL_FROM: "a@example.com",
    }),
    line: /fail {2}email +127\.0\.0\.1:\d+ does not accept emails: .*wrong password/,
    code: 1,
  },
  {
    title: "an SMTP server that cannot be reached",
    settings: () => ({
      POSTERN_SMTP_URL: "smtp://127.0.0.1:1",
      POSTERN_EMAIL_FROM: "a@example.com",
    }),
    line: /fail {2}email +127\.0\.0\.1:1 does not accept emails/,
    code: 1,
  },
  {
    title: "a wrong OIDC client secret",
    settings: () => oidc("wrong"),
    line: /fail {2}identity +The issuer does not accept the client/,
    code: 1,
  },
  {
    title: "an OIDC issuer that cannot be reached",
    settings: () => ({ ...oidc("any"), OIDC_ISSUER: UNREACHABLE }),
    line: /fail {2}identity +The issuer cannot be used/,
    code: 1,
  },
  {
    title: "an alert webhook that cannot be reached",
    settings: () => ({
      POSTERN_ALERT_WEBHOOK_URL: UNREACHABLE,
      POSTERN_ALERT_WEBHOOK_SECRET: `whsec_${"A".repeat(32)}`,
    }),
    line: /fail {2}alerts +the alert webhook at 127\.0\.0\.1:1 cannot be reached/,
    code: 1,
  },
  {
    title: "a wrong path of the alert webhook",
    settings: () => ({
      POSTERN_ALERT_WEBHOOK_URL: `${base()}/hook`,
      POSTERN_ALERT_WEBHOOK_SECRET: `whsec_${"A".repeat(32)}`,
    }),
    line: /warn {2}alerts +the alert webhook at localhost:\d+ answers 404/,
    code: 0,
  },
  {
    title: "a wrong database password",
    settings: () => ({ DATABASE_URL: "postgres://postern:hunter2@127.0.0.1:1/postern" }),
    line: /fail {2}store +PostgreSQL at 127\.0\.0\.1:1 cannot be used/,
    code: 1,
  },
  {
    title: "a data folder that is a file",
    settings: () => ({ POSTERN_DATA_DIR: path.join(fileWith("file", ""), "data") }),
    line: /fail {2}store +SQLite in \S+ cannot be created/,
    code: 1,
  },
];

describe("postern doctor", () => {
  for (const { title, settings, line, code } of MISCONFIGURATIONS)
    test(`reports ${title}`, async () => {
      const { stdout, code: found } = await doctor(settings());
      const lines = stdout.split("\n");
      const index = lines.findIndex((one) => line.test(one));
      expect([index >= 0 ? "reported" : stdout, found]).toEqual(["reported", code]);
      // Every problem says what follows for users.
      expect(lines[index + 1]).toMatch(/^ {20}\S/);
      expect(stdout).not.toContain("hunter2");
    });

  test("accepts what is right", async () => {
    const { stdout } = await doctor({
      ...modelsFile("good.json", ownProvider({ api_key_env: "OWN_KEY" })),
      OWN_KEY: "good",
      POSTERN_SMTP_URL: smtp.url,
      POSTERN_EMAIL_FROM: "a@example.com",
      ...oidc(CLIENT.secret),
    });
    expect(stdout).toContain("ok    own         own accepts the key");
    expect(stdout).toContain("ok    email ");
    expect(stdout).toContain("The issuer accepts the client.");
    expect(stdout).not.toContain("no provider key is set");
    expect(smtp.received).toEqual([]);
  });

  test("reports a role that cannot migrate", async () => {
    const database = await migratedPostgres();
    const admin = new SQL(database, { max: 1 });
    const role = `role_${process.pid}_${Date.now()}`;
    try {
      await admin.unsafe(`create role ${role} login password 'secret'`);
      await admin.unsafe(
        `grant select, insert, update, delete on all tables in schema public to ${role}`,
      );
      const url = new URL(database);
      [url.username, url.password] = [role, "secret"];
      const { stdout } = await doctor({ DATABASE_URL: url.href });
      expect(stdout).toContain(
        `warn  store       the role ${role} cannot change the schema public`,
      );
      expect(stdout).toContain("the next upgrade with a migration does not start");
      // Without tables, the role has to create them.
      await admin.unsafe(
        "drop schema public cascade; create schema public; grant usage on schema public to public",
      );
      const migrating = await runInProcess(["migrate"], {
        ...temp.settings,
        DATABASE_URL: url.href,
      });
      expect(migrating).toMatchObject({ code: 1 });
      expect(migrating.stderr).toMatch(
        /permission denied for schema public.*grant usage, create on schema public/,
      );
    } finally {
      await admin.unsafe(`drop owned by ${role}`);
      await admin.unsafe(`drop role ${role}`);
      await admin.close();
      await dropPostgres(database);
    }
  });
});

describe("postern serve", () => {
  for (const { title, settings, code } of MISCONFIGURATIONS.filter((one) => one.code === 2))
    test(`does not start with ${title}, with exit code ${code}`, async () => {
      const { code: found, stderr } = await runInProcess(["serve"], {
        ...temp.settings,
        POSTERN_PORT: "0",
        ...settings(),
      });
      expect([found, stderr.trim()]).toEqual([2, expect.stringMatching(/\S/)]);
    });
});

test("a gateway that starts says which services of its settings cannot be used", async () => {
  const running = await startPostern([], {
    ...temp.settings,
    POSTERN_SMTP_URL: "smtp://127.0.0.1:1",
    POSTERN_EMAIL_FROM: "a@example.com",
    ...oidc("wrong"),
    ...stripe.env,
    STRIPE_SECRET_KEY: "sk_test_wrong",
  });
  const problems = await eventually(() => {
    const lines = running.output().split("\n");
    const found = lines.filter((line) => line.includes("a service of the settings cannot be used"));
    return found.length === 3 ? found.join("\n") : undefined;
  });
  for (const service of ["email", "identity", "payments"])
    expect(problems).toContain(`"service":"${service}"`);
  expect(problems).toContain("People cannot sign in");
  await stopPostern(running);
});

test("a mistake in a file of settings is reported with file and line", async () => {
  mkdirSync(path.join(temp.folder, "etc"), { recursive: true });
  const file = fileWith(
    "etc/postern.env",
    '# Settings\nPOSTERN_PORT="80a"\nexport POSTERN_LOG_LEVEL=info\n',
  );
  expect(await runPostern(["--env-file", file, "doctor"], {})).toMatchObject({
    code: 2,
    stdout: expect.stringContaining(`fail  settings    ${file}:2: POSTERN_PORT must be`),
  });
  const broken = fileWith("etc/broken.env", "POSTERN_PORT=1\nPOSTERN_HOST 127.0.0.1\n");
  expect(await runPostern([`--env-file=${broken}`, "doctor"], {})).toMatchObject({
    code: 2,
    stderr: `postern: ${broken}:2: not a setting: write NAME=value, without spaces before =\n`,
  });
});
