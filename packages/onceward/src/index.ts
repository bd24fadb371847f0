import { main } from './main.ts'

// Node warns of timers in the clients of brokers, which an operator cannot fix.
process.removeAllListeners('warning')
process.exitCode = await main(process.argv.slice(2))

// A client that gave up on a silent server may keep its socket. The reader of the answer may still be reading.
const LINGER_MS = 500
const ending = setInterval(() => {
  if (process.stdout.writableLength === 0) process.exit()
}, LINGER_MS)
ending.unref()
