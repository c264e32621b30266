// What is tried on in the sandbox, as text: kept in this tab, and handed on in links, which anybody can write.

const KEPT = "reweave-sandbox";
export const MOST = 4;
export const LENGTHS = [["10 s", 10], ["1 min", 60], ["5 min", 300], ["15 min", 900], ["1 hour", 3600]];

const KINDS = ["past", "flows", "job"];

/** Until the newest, unless a moment was chosen. */
export const NOTHING = { kind: "past", until: null, seconds: 60, flows: "", job: "", fabric: "", variants: [] };

/** Null when it cannot be read. */
export function kept() {
  const text = sessionStorage.getItem(KEPT);
  return text === null ? NOTHING : read(text);
}

export function keepText(text) {
  sessionStorage.setItem(KEPT, text);
}

function read(text) {
  try {
    const { kind, until, seconds, flows, job, fabric, variants } = { ...NOTHING, ...JSON.parse(text) };
    const isMoment = until === null || Number.isFinite(Date.parse(until));
    const isLength = LENGTHS.some(([, known]) => known === seconds);
    const areTexts = [flows, job, fabric].every((it) => typeof it === "string");
    if (!KINDS.includes(kind) || !isMoment || !isLength || !areTexts || variants.length > MOST) return null;
    return { kind, until, seconds, flows, job, fabric, variants: variants.map(variantOf) };
  } catch {
    return null;
  }
}

/** And nothing else of it. */
function variantOf({ name, variant, files }) {
  const texts = [name, variant, ...Object.values(files)];
  if (!texts.every((it) => typeof it === "string")) throw new TypeError("no variant");
  return { name, variant, files: { ...files } };
}
