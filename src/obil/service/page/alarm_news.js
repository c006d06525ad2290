// Tell a listener, once, when a stream stops or starts being trusted.

const known = new Map();

export function tellOfAlarms(summaries) {
  const news = [];
  for (const { name, trusted } of summaries) {
    if (known.has(name) && known.get(name) !== trusted) {
      news.push(trusted ? `Stream ${name} is trusted again.` : `Alarm: stream ${name} is not trusted any more.`);
    }
    known.set(name, trusted);
  }
  if (news.length) document.getElementById("news").textContent = news.slice(0, 5).join(" ");
}
