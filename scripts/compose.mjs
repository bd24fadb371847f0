import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import { root, run } from './process.mjs'
import { test } from './test.mjs'

const file = join(root, 'docker-compose.yml')

async function compose(args, options) {
  return run('docker', ['compose', '--file', file, ...args], options)
}

async function requireCompose() {
  const { code, output } = await compose(['version'], { quiet: true })
  if (code !== 0) {
    throw new Error(`npm run test:compose needs Docker with the compose plugin.\n${output}`)
  }
}

try {
  await requireCompose()
  const { code } = await compose(['up', '--detach', '--wait', '--wait-timeout', '180'])
  if (code !== 0) throw new Error('the servers of docker-compose.yml did not become healthy')
  Object.assign(process.env, parse(readFileSync(file, 'utf8'))['x-environment'])
  process.exitCode = await test(process.argv.slice(2))
} catch (error) {
  console.error(error instanceof Error ? error.message : error)
  process.exitCode = 1
} finally {
  await compose(['down', '--volumes'], { quiet: true })
}
