// Why a recorded request is rightly refused at another model: what it asks for does not exist there, and dropping it would
// change the reply, or it refers to storage at the recorded account.

const MEANING: readonly (readonly [reason: RegExp, why: string])[] = [
  [
    /refers to an object in the provider account/,
    "A reference to state or files of a provider account",
  ],
  [/The server tool|server tool .* runs only/, "A server tool of another provider"],
  [/^400 (?:tools|web_search_options): The price of this/, "A server tool without a price"],
  [/What the tool .* costs/, "A server tool without a price"],
  [/^400 tools\[\]\.model: The advisor model/, "An advisor model of another provider"],
  [
    /^400 (?:web_search_options|mcp_servers|audio|container):/,
    "A field for server tools, or audio output",
  ],
  [/custom tools with free-form input/, "A custom tool with free-form input"],
  [
    /This content is specific to|native content in/,
    "A call or result of a server tool in the history",
  ],
  [
    /(?:does not|cannot) (?:support audio|fetch)|supports only text in tool results/,
    "Audio, a URL, or media in a tool result",
  ],
  [/does not support citations|document context/, "Citations of documents"],
  [/^400 (?:n|logprobs|include|top_logprobs):/, "Several choices, or log probabilities"],
  [/supports only text in instructions/, "Tools that instructions add later"],
  [/stored at another provider|file is stored/, "A file at another provider"],
];

export const REFUSED_FOR: readonly string[] = [...new Set(MEANING.map(([, why]) => why))];

export function isAboutMeaning(reason: string): boolean {
  return MEANING.some(([pattern]) => pattern.test(reason));
}
