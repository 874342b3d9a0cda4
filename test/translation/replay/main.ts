// `npm run replay -- <folder>`: replays a folder of recorded calls, with a manifest.jsonl as in the recordings' README.

import { existsSync } from "node:fs";
import path from "node:path";
import { startHarness } from "../support/harness.ts";
import { acceptedRequests } from "./accepted-requests.ts";
import { replayReplies } from "./replay-replies.ts";
import { replayRequests, TARGET_PROVIDERS } from "./replay-requests.ts";
import { replyReport, requestReport } from "./report.ts";

const [folder] = process.argv.slice(2);
if (folder === undefined || !existsSync(path.join(folder, "manifest.jsonl"))) {
  console.error("Usage: npm run replay -- <folder with a manifest.jsonl>");
  process.exit(2);
}
const harness = await startHarness({ providers: TARGET_PROVIDERS, sellsServerTools: true });
const requests = await replayRequests(harness, acceptedRequests(folder));
console.log(requestReport(requests));
console.log(`\n${replyReport(await replayReplies(harness, folder))}`);
await harness.stop();
process.exit(0);
