// POSTERN_COMMIT: which commits of a served call are synced. PostgreSQL says it inside of the transaction; a SQLite connection
// cannot be asked from outside, so there the ledger's test says it.

import { expect, test } from "bun:test";
import { text } from "../../src/store/db.ts";
import { registerAccount, startGateway } from "../support/gateway.ts";

test.each([
  ["disk", "on"],
  ["os_cache", "off"],
])(
  "with POSTERN_COMMIT=%s, the record of a call is written with synchronous_commit %s",
  async (commit, expected) => {
    const gateway = await startGateway({ store: "postgres", env: { POSTERN_COMMIT: commit } });
    const { db } = gateway.server;
    const statements = [
      "create table commit_level (source text, level text)",
      `create function record_level() returns trigger language plpgsql as
       $$ begin insert into commit_level values (tg_table_name, current_setting('synchronous_commit')); return new; end $$`,
      "create trigger levels after insert on usage_record for each row execute function record_level()",
      "create trigger levels after insert on account for each row execute function record_level()",
    ];
    for (const statement of statements) await db.write((tx) => tx.run(statement));
    const account = await registerAccount(gateway);
    const response = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: "POST",
      headers: { ...account.headers, "content-type": "application/json" },
      body: JSON.stringify({ model: "sim/echo", messages: [{ role: "user", content: "hello" }] }),
    });
    expect(response.status).toBe(200);
    await response.text();
    const rows = await db.all("select source, level from commit_level order by source");
    expect(rows.map((row) => [text(row, "source"), text(row, "level")])).toEqual([
      ["account", "on"],
      ["usage_record", expected],
    ]);
    await gateway.stop();
  },
);
