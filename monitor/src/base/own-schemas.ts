/** Options of Ajv for schemas that are in the source: whether they are schemas is looked at by tests, not at each start. */
export const ownSchemas = { meta: false, validateSchema: false, strict: false } as const;
