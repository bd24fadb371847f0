import { proxy, sqs } from '@onceward/testing/servers'

const [what, host = '', port, latencyMs] = process.argv.slice(2)
process.on('disconnect', () => process.exit())

if (what === 'proxy') {
  const started = await proxy({ host, port: Number(port) }, { latencyMs: Number(latencyMs) })
  process.send?.({ host: started.host, port: started.port })
} else {
  process.send?.((await sqs({ native: true })).connection)
}
