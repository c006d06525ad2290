// Announce once when a stream stops or starts being trusted; return whether any alarm is new or over.

const known = new Map();

export function tellOfAlarms(summaries) {
  const news = [];
  let other = false;
  for (const { name, trusted } of summaries) {
    if (known.has(name) && known.get(name) !== trusted) {
      news.push(trusted ? `Stream ${name} is trusted again.` : `Alarm: stream ${name} is no longer trusted.`);
    }
    other ||= known.has(name) ? known.get(name) !== trusted : !trusted;
    known.set(name, trusted);
  }
  if (news.length) document.getElementById("news").textContent = news.slice(0, 5).join(" ");
  return other;
}
