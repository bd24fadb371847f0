import type { AddressInfo } from 'node:net'
import express from 'express'
import type { ServerSettings } from './server.ts'

/* The process that serves one contestant, and is killed. */
const { name, ...place }: ServerSettings = JSON.parse(process.argv[2] ?? '{}')
process.on('disconnect', () => process.exit())
const { HTTP_RIVALS } = await import('./contestants/index.ts')
const rival = HTTP_RIVALS.find((each) => each.name === name)
const app = express()
await rival?.serve(app, place)
const server = app.listen(0, '127.0.0.1', () => {
  process.send?.({ port: (server.address() as AddressInfo).port })
})
