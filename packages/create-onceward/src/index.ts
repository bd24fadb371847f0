import { fileURLToPath } from 'node:url'
import { CreateError } from './create.ts'
import { main } from './main.ts'

try {
  await main(process.argv.slice(2), fileURLToPath(new URL('./examples', import.meta.url)))
} catch (error) {
  if (!(error instanceof CreateError)) throw error
  process.stderr.write(`${error.message}\n`)
  process.exitCode = 2
}
