// auth.md, the claim: how a human takes the account over. It is written only where both of its endpoints are mounted.

import { START_CLAIM_ROUTE, CLAIM_TOKEN_ROUTE } from "../route-keys.ts";
import { type DocContext, joinParagraphs, markdownTable } from "../doc-context.ts";
import { TOKEN_ERRORS } from "../error-docs.ts";
import type { Section } from "./registration-sections.ts";
import { claimGrantType, creditsText } from "../discovery-settings.ts";

export function claimSection(context: DocContext): Section | undefined {
  if (!context.isMounted(START_CLAIM_ROUTE) || !context.isMounted(CLAIM_TOKEN_ROUTE))
    return undefined;
  const { settings } = context;
  return {
    title: "Hand the account to a human",
    text: joinParagraphs([
      `A human can take the account over at any time. Keys and balance stay as they are, your key keeps working, and the first claim of each human adds ${creditsText(settings.claimBonusCredits)}, as long as what the gateway gives away in a day lasts.`,
      "### Start",
      "Ask for the human's e-mail address, and for their consent to use it. They must sign in with exactly this address.",
      context.curl(START_CLAIM_ROUTE),
      context.responseExample(START_CLAIM_ROUTE),
      "Give the human `verification_uri_complete`, and show the `user_code` beside it, with words like these:",
      "> To take over the account that I opened, open this link and sign in as human@example.com. Check that the page shows the code 123456, then confirm. The code belongs on that page: nobody needs it back from you.",
      "Do not open the link yourself. The code lives for `expires_in` seconds. A new start makes the former link and code useless.",
      "A `503` with `provider_not_configured` says that no human can sign in on this gateway. Do not start again; tell your human. Your key works as before.",
      "### Poll",
      `Send this every \`interval\` seconds, until the answer is neither \`authorization_pending\` nor \`slow_down\`. The grant type is \`${claimGrantType(settings)}\`.`,
      context.curl(CLAIM_TOKEN_ROUTE),
      "`200` means that it is done:",
      context.responseExample(CLAIM_TOKEN_ROUTE),
      'Otherwise the body is `{"error": …}`:',
      markdownTable(
        ["`error`", "Status", "Meaning", "What to do"],
        TOKEN_ERRORS.map((each) => [
          `\`${each.error}\``,
          String(each.status),
          each.meaning,
          each.next,
        ]),
      ),
      "### Afterwards",
      "The account is a workspace that the human owns. To invite a second person, start a claim with that person's address: they join as a developer, and nothing else changes.",
    ]),
  };
}
