// What a client of MQTT.js does at a broker, in Node and in a page; returns what it saw.
async function scenario(mqtt, url, version) {
  const lasting = { clean: false, properties: { sessionExpiryInterval: 100 } };

  function connect(clientId, more = {}) {
    const options = { clientId, protocolVersion: version, reconnectPeriod: 0, timerVariant: "native", ...more };
    const client = mqtt.connect(url, options);
    const events = [], waiting = [];
    client.on("message", (topic, payload, { qos, retain }) => {
      const event = [topic, payload.toString(), qos, retain];
      waiting.length ? waiting.shift()(event) : events.push(event);
    });
    client.event = () =>
      new Promise((come) => (events.length ? come(events.shift()) : waiting.push(come)));
    return new Promise((come, fail) => {
      client.once("error", fail);
      client.once("close", () => fail(new Error("closed")));
      client.once("connect", ({ sessionPresent }) => come(Object.assign(client, { sessionPresent })));
    });
  }

  const seen = {};
  const publisher = await connect("publisher");
  let device = await connect("device", lasting);
  seen.fresh = device.sessionPresent;
  await device.subscribeAsync("a/#", { qos: 2 });
  for (const qos of [0, 1, 2]) await publisher.publishAsync(`a/${qos}`, "live", { qos });
  seen.live = [await device.event(), await device.event(), await device.event()];

  await publisher.publishAsync("r/1", "kept", { qos: 1, retain: true });
  await device.subscribeAsync("r/#", { qos: 1 });
  seen.retained = await device.event();

  const cheap = version === 5 ? "stock/#" : "$filter/price%20%3C%20100/stock/#";
  const said = version === 5 ? { properties: { userProperties: { filter: "price < 100" } } } : {};
  await device.subscribeAsync(cheap, { qos: 1, ...said });
  for (const price of [120, 99])
    await publisher.publishAsync("stock/IBM", JSON.stringify({ price }), { qos: 1 });
  seen.filtered = await device.event();

  await device.endAsync();
  for (const qos of [1, 2]) await publisher.publishAsync("a/b", `away ${qos}`, { qos });
  device = await connect("device", lasting);
  seen.present = device.sessionPresent;
  seen.owed = [await device.event(), await device.event()];

  const will = { topic: "a/will", payload: "gone", qos: 1, retain: false };
  const lost = await connect("lost", { will });
  lost.on("error", () => {});
  lost.stream.destroy();
  seen.will = await device.event();
  for (const each of [device, publisher]) await each.endAsync();
  return seen;
}

if (typeof module !== "undefined") {
  const [library, url, version] = process.argv.slice(2);
  scenario(require(library), url, Number(version)).then(
    (seen) => process.stdout.write(JSON.stringify(seen), () => process.exit(0)),
    (error) => { console.error(error); process.exit(1); },
  );
}
