// What is tried on in the sandbox, as text: kept in this tab, and handed on in links, which anybody can write.

const KEPT = "reweave-sandbox";
export const MOST = 4;
export const LENGTHS = [["10 s", 10], ["1 min", 60], ["5 min", 300], ["15 min", 900], ["1 hour", 3600]];

/** Until the newest, unless a moment was chosen. */
const NOTHING = { until: null, seconds: 60, variants: [] };

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
    const { until, seconds, variants } = JSON.parse(text);
    const isMoment = until === null || Number.isFinite(Date.parse(until));
    const isLength = LENGTHS.some(([, known]) => known === seconds);
    if (!isMoment || !isLength || variants.length > MOST) return null;
    return { until, seconds, variants: variants.map(variantOf) };
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
