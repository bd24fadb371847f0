import { createRequire } from 'node:module'
import { ServerMissingError } from './server.ts'

type Resolve = (name: string) => string

const { resolve }: { readonly resolve: Resolve } = createRequire(import.meta.url)

/** Packages that only some servers need, so that they do not come with this one. */
const PEERS = {
  kafkajs: 'asks a Kafka whether it is ready',
  testcontainers: 'runs servers as Docker containers',
} as const

/** Whether an optional package is there. */
export function isInstalled(name: keyof typeof PEERS, from: Resolve = resolve): boolean {
  try {
    from(name)
    return true
  } catch {
    return false
  }
}

/**
 * @throws {@link ServerMissingError} that says what to install.
 */
export function needPeer(name: keyof typeof PEERS, from: Resolve = resolve): void {
  if (!isInstalled(name, from)) throw new ServerMissingError(missing(name))
}

export const missing = (name: keyof typeof PEERS): string =>
  `The package ${name} ${PEERS[name]}, and is not installed: npm install --save-dev ${name}`
