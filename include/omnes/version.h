/* The single source of the version: Meson reads it for the package and the soname. */
#ifndef OMNES_VERSION_H_
#define OMNES_VERSION_H_

#define OMNES_MAJOR 0
#define OMNES_MINOR 1
#define OMNES_PATCH 0

/* Same arithmetic as NCCL_VERSION_CODE since 2.9: major * 10000 + minor * 100 + patch. */
#define OMNES_VERSION_CODE (OMNES_MAJOR * 10000 + OMNES_MINOR * 100 + OMNES_PATCH)

/* "MAJOR.MINOR.PATCH" */
#define OMNES_VERSION_TEXT_OF_(a, b, c) #a "." #b "." #c
#define OMNES_VERSION_TEXT_OF(a, b, c) OMNES_VERSION_TEXT_OF_(a, b, c)
#define OMNES_VERSION_TEXT OMNES_VERSION_TEXT_OF(OMNES_MAJOR, OMNES_MINOR, OMNES_PATCH)

#endif
