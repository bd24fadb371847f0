import { CONVENTIONS_VERSION } from './names.ts'

/** Names this package in what it measures. */
export const SCOPE = '@onceward/otel'

/** The version of this package. `version.test.ts` compares it with package.json. */
export const VERSION = '0.1.0'

export const SCHEMA_URL: string = `https://opentelemetry.io/schemas/${CONVENTIONS_VERSION}`
