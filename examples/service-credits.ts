// Lists the service levels of a gateway and the service credits of an account, and checks each credit against the usage of its window.
//   node bin/bun.js examples/service-credits.ts http://127.0.0.1:8787 "$POSTERN_API_KEY"

const [url = "http://127.0.0.1:8787", key = ""] = process.argv.slice(2);
const headers = { authorization: `Bearer ${key}` };

interface ServiceLevel {
  readonly id: string;
  readonly text: string;
  readonly credit: string;
}

interface ServiceCredit {
  readonly id: string;
  readonly model: string;
  readonly window_start: string;
  readonly window_end: string;
  readonly usd: number;
  readonly reason: string;
}

async function get<T>(path: string): Promise<T> {
  const response = await fetch(`${url}${path}`, { headers });
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return (await response.json()) as T;
}

const levels = await get<{ data: readonly ServiceLevel[] }>("/v1/service-levels");
if (levels.data.length === 0) console.log("this gateway has no service levels");
for (const { text, credit } of levels.data) console.log(`${text} Credit: ${credit}.`);

for (let cursor = ""; ;) {
  const page = await get<{ data: readonly ServiceCredit[]; next_cursor: string | null }>(
    `/v1/billing/service-credits?limit=100${cursor}`,
  );
  for (const { id, model, window_start: from, window_end: to, usd, reason } of page.data) {
    const query = new URLSearchParams({ from, to, model, group_by: "model" });
    const { totals } = await get<{ totals: { calls: number; cost_usd: string } }>(
      `/v1/usage/summary?${query.toString()}`,
    );
    const isWithin = usd <= Number(totals.cost_usd);
    console.log(`${id}: $${usd} for ${totals.calls} calls that cost $${totals.cost_usd}`);
    console.log(`  ${reason}`);
    if (!isWithin) throw new Error(`${id} is more than its calls cost`);
  }
  if (page.next_cursor === null) break;
  cursor = `&cursor=${page.next_cursor}`;
}
