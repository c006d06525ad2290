// Write fractions, odds, counts and times for people to read.

export const NONE = "–";
const SIGN = "\u00a0%"; // stays on the line of its number

export function isNumber(value) {
  return typeof value === "number" && Number.isFinite(value);
}

// Two significant digits of the smaller of a fraction and its complement
function digitsOf(fraction) {
  const small = 100 * Math.min(fraction, 1 - fraction);
  if (small >= 9.95) return 0;
  const digits = Math.max(0, Math.min(1 - Math.floor(Math.log10(Math.max(small, 1e-9))), 8));
  return fraction > 0.5 && small >= 0.01 ? Math.min(digits, 2) : digits; // 99.95 % is as near to all as anyone reads
}

// 5.1 %, 0.16 %, 99.4 %
export function percent(fraction) {
  if (!isNumber(fraction)) return NONE;
  if (fraction <= 0) return `0${SIGN}`;
  if (fraction >= 1) return `100${SIGN}`;
  return `${(100 * fraction).toFixed(digitsOf(fraction))}${SIGN}`;
}

export function percentRange(low, high) {
  if (!isNumber(low) || !isNumber(high)) return NONE;
  const [few, many] = [digitsOf(low), digitsOf(high)].sort((a, b) => a - b);
  const wide = digitsOf(Math.max(high - low, 1e-6) / 2) + 1; // no more digits than it takes to see how wide it is
  const digits = low > 0 && high < 1 ? Math.min(few + 1, many, wide) : Math.min(1, many);
  return `${(100 * low).toFixed(digits)} to ${(100 * high).toFixed(digits)}${SIGN}`;
}

// 1 in 120; for common things the percentage is clearer
export function oneIn(fraction) {
  if (!isNumber(fraction) || fraction <= 0 || fraction > 0.2) return "";
  const rows = 1 / fraction;
  return `1 in ${count(rows < 100 ? Math.round(rows) : Number(rows.toPrecision(2)))}`;
}

// A log ratio as odds: 18:1, 1:7.4
export function odds(logRatio) {
  if (logRatio === null || logRatio === undefined || Number.isNaN(logRatio)) return NONE;
  const size = Math.exp(Math.min(Math.abs(logRatio), 30));
  const text = size > 1e6 ? "over 1,000,000" : size >= 10 ? count(Math.round(size)) : String(Number(size.toPrecision(2)));
  return logRatio >= 0 ? `${text}:1` : `1:${text}`;
}

export function count(number) {
  return isNumber(number) ? number.toLocaleString("en-US", { maximumFractionDigits: 0 }) : NONE;
}

export function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

// 2.1 times as many, by what was expected
export function times(ratio) {
  if (!isNumber(ratio) || ratio <= 0) return "";
  if (Math.abs(Math.log(ratio)) < 0.05) return "as in training";
  const size = ratio >= 1 ? ratio : 1 / ratio;
  const text = size >= 100 ? "over 100" : size >= 10 ? size.toFixed(0) : size.toFixed(1);
  return ratio >= 1 ? `${text} × more` : `${text} × less`;
}

// Moments come as seconds since 1970 or as ISO 8601
export function secondsOf(moment) {
  if (isNumber(moment)) return moment;
  const milliseconds = Date.parse(moment ?? "");
  return Number.isNaN(milliseconds) ? null : milliseconds / 1000;
}

export function ago(moment, now = Date.now() / 1000) {
  const at = secondsOf(moment);
  if (at === null || at <= 0) return NONE;
  const seconds = Math.max(0, now - at);
  if (seconds < 5) return "just now";
  if (seconds < 60) return `${Math.floor(seconds)} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 48 * 3600) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86400)} days ago`;
}

const pad = (number) => String(number).padStart(2, "0");
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

export function clock(moment, { seconds = true } = {}) {
  const at = secondsOf(moment);
  if (at === null) return NONE;
  const date = new Date(at * 1000);
  const time = `${pad(date.getHours())}:${pad(date.getMinutes())}`;
  return seconds ? `${time}:${pad(date.getSeconds())}` : time;
}

export function day(moment) {
  const date = new Date((secondsOf(moment) ?? 0) * 1000);
  const year = date.getFullYear() === new Date().getFullYear() ? "" : ` ${date.getFullYear()}`;
  return `${date.getDate()} ${MONTHS[date.getMonth()]}${year}`;
}

// UTC, UTC+1, UTC-3:30: of this browser, at that moment
export function zone(at) {
  const minutes = -new Date((secondsOf(at) ?? 0) * 1000).getTimezoneOffset();
  if (!minutes) return "UTC";
  const [hours, rest] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60];
  return `UTC${minutes < 0 ? "-" : "+"}${hours}${rest ? `:${pad(rest)}` : ""}`;
}

export function moment(at) {
  return secondsOf(at) === null ? NONE : `${day(at)}, ${clock(at)} ${zone(at)}`;
}
