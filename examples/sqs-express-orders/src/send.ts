// Sends orders, each of them twice, as a client does that retries.
const orders = Number(process.argv[2] ?? 20)
const url = `http://localhost:${process.env.PORT ?? 3000}/orders`

async function post(n: number): Promise<void> {
  const body = JSON.stringify({ orderId: `order-${n}`, accountId: 1, cents: 100 })
  const headers = { 'content-type': 'application/json' }
  const { status } = await fetch(url, { method: 'POST', headers, body })
  if (status !== 202) throw new Error(`the api answered ${status}`)
}

// Ten at a time.
let next = 0
const lanes = Array.from({ length: 10 }, async () => {
  while (next < orders) {
    next += 1
    const n = next
    await post(n)
    await post(n)
  }
})
await Promise.all(lanes)
console.log(`sent ${orders} orders, each twice`)
