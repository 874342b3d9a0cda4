// /llms-full.txt: the index, the sign-up guide and every page of the documentation as one text.

import { authMd } from "../auth-md/auth-md.ts";
import type { DocContext } from "../doc-context.ts";
import { llmsTxt } from "../llms-txt.ts";
import { pageUrl, type Site } from "../site/site-types.ts";

export async function llmsFullTxt(context: DocContext, site: () => Promise<Site>): Promise<string> {
  const { pages } = await site();
  const { baseUrl } = context.settings;
  return [
    llmsTxt(context),
    authMd(context),
    ...pages.map(
      ({ slug, markdown, examples = "" }) =>
        `Source: ${baseUrl}${pageUrl(slug)}\n\n${markdown}\n\n${examples}`,
    ),
  ]
    .map((text) => text.trim())
    .join("\n\n---\n\n");
}
